"""Which variables travel together, and in which order: small buckets leave while the backward pass goes on.

A bucket is one message's worth of variables of one strategy. A backward pass reaches the variables declared last first:
so buckets leave in the reverse of the declaration, and what is pulled comes in its order.
"""

from collections import Counter
from dataclasses import replace
from typing import NamedTuple

from refimpl.gradients import leaves_of
from refimpl.plan.plan import Plan
from refimpl.plan.strategy import STRATEGIES, Strategy

BUCKET = 1 << 18  # bytes of dense variables: below, what each message costs anyway outweighs that it leaves sooner


class Bucket(NamedTuple):
    """Variables of one strategy, and of one codec, that are exchanged together."""

    strategy: type[Strategy]
    names: tuple[str, ...]


def buckets_of(plan: Plan) -> list[Bucket]:
    """Return the plan's buckets in the order in which their exchange begins. Local.

    Without any in the plan there is one for each strategy. Raises ValueError unless every variable of the plan is in
    one bucket, with others of its strategy.
    """
    kinds = {name: (type(strategy), strategy.codec, strategy.joins(name))
             for name, strategy in plan.strategies.items()}
    if not plan.buckets:
        order = list(STRATEGIES.values())
        found = sorted(dict.fromkeys(kinds.values()), key=lambda kind: order.index(kind[0]))
        return [Bucket(kind[0], tuple(name for name, other in kinds.items() if other == kind)) for kind in found]
    named = [name for names in plan.buckets for name in names]
    times = Counter(named)
    if odd := [name for name in {**kinds, **times} if times[name] != (name in kinds)]:
        raise ValueError(f"the plan's buckets must name each variable once; look at {listed(odd)}, or leave them empty")
    for names in plan.buckets:
        if len({kinds[name] for name in names}) != 1:
            raise ValueError(f"the plan's bucket {listed(names) or '()'} is empty or mixes strategies, codecs or "
                             "kinds; put only variables of one strategy, codec and kind together")
    return [Bucket(kinds[names[0]][0], names) for names in plan.buckets]


def with_buckets_for(way: str, plan: Plan, variables) -> Plan:
    """Return the plan with the buckets that a way of overlapping asks for (``training.step.overlap_choice``). Local.

    "thread": those of ``with_buckets``.  "early": these of dense variables that begin early, one of each other kind.
    """
    def cut(strategy):
        return strategy.early and not strategy.sparse

    if way == "no" or plan.buckets:
        return plan
    pieces = with_buckets(plan, variables)
    if way == "thread":
        return pieces
    whole = [bucket.names for bucket in buckets_of(plan) if not cut(bucket.strategy)]
    return replace(plan, buckets=(*whole, *(names for names in pieces.buckets if cut(plan.strategies[names[0]]))))


def listed(names, most: int = 8) -> str:
    """Return names for a message: the first few, each cut short, and how many more there are. Local."""
    names = list(names)
    said = [name if len(name) <= 60 else f"{name[:57]}..." for name in names[:most]]
    return ", ".join([*said, *([f"and {len(names) - most} more"] if len(names) > most else [])])


def with_buckets(plan: Plan, variables, largest: int | None = None) -> Plan:
    """Return the plan with buckets in backward order; as it is if it has any. Local.

    Dense variables fill a bucket of their strategy up to ``largest`` bytes, None: BUCKET. Sparse ones go together if
    they are neighbours with as many rows: a weight and its bias, say, are asked for the same rows.

    Rows are pulled in as many rounds as a rank has microbatches, so that the first need not wait for the others'. With
    local aggregation they are pulled in one: else a row that two ranks of a machine need could cross in two rounds.
    """
    if plan.buckets:
        return plan
    buckets, filling, above = [], {}, None
    for variable in reversed(variables):
        strategy = plan.strategies[variable.name]
        kind, name = type(strategy), (strategy.codec, strategy.joins(variable.name))
        bucket = filling.get((kind, name))
        if variable.sparse:
            joins = bucket and above.sparse and above.shape[0] == variable.shape[0] and above is bucket[-1]
        else:
            room = kind.bucket_bytes(BUCKET if largest is None else largest, plan.ranks)
            joins = bucket and sum(v.nbytes for v in bucket) + variable.nbytes <= room
        if not joins:
            bucket = filling[kind, name] = []
        else:
            buckets.remove(bucket)
        bucket.append(variable)
        buckets.append(bucket)  # a bucket leaves when the last of its gradients is there
        above = variable
    names = (tuple(v.name for v in reversed(bucket)) for bucket in buckets)
    aggregated = plan.local_aggregation and any(len(ranks) > 1 for ranks in plan.machines)
    most = max(len(leaves_of(rank, plan.ranks, plan.microbatches)) for rank in range(plan.ranks))
    return replace(plan, buckets=tuple(names), pull_rounds=1 if aggregated else most)
