"""Buckets: variables that are exchanged together. Small ones can leave while the backward pass is still running.

A backward pass computes the gradients of the last declared variables first. So buckets leave in the reverse order of
declaration. Values are pulled in the order of declaration.
"""

from collections import Counter
from dataclasses import replace
from itertools import takewhile
from typing import NamedTuple

from refimpl.gradients import leaves_of
from refimpl.plan.plan import Plan
from refimpl.plan.strategy import STRATEGIES, Strategy

BUCKET = 1 << 18  # bytes of dense variables: smaller messages leave sooner, but all together take longer


class Bucket(NamedTuple):
    """Variables of one strategy and one codec, which are exchanged together."""

    strategy: type[Strategy]
    names: tuple[str, ...]


def buckets_of(plan: Plan) -> list[Bucket]:
    """Return the plan's buckets in the order in which their exchanges begin. Local.

    If the plan names no buckets, there is one for each strategy. Raises ValueError unless each variable of the plan is
    in exactly one bucket, and all variables of a bucket have one strategy.
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
    """Return the plan with the buckets for a way of overlapping (``training.step.overlap_choice``). Local.

    "thread": those of ``with_buckets``.  "early": those of dense variables whose sums can begin early, and one for each
    other kind. Rows on the server have two: variables behind a dense one, whose gradients a model computes first; and
    the others, whose rows it needs first.
    """
    def cut(strategy):
        return strategy.early and not strategy.sparse

    if way == "no" or plan.buckets:
        return plan
    pieces = with_buckets(plan, variables)
    if way == "thread":
        return pieces
    first = {v.name for v in takewhile(lambda v: v.sparse, variables)}
    whole = [names for bucket in buckets_of(plan) if not cut(bucket.strategy) for last in (False, True)
             if (names := tuple(n for n in bucket.names if (bucket.strategy.early and n in first) == last))]
    return replace(plan, buckets=(*whole, *(names for names in pieces.buckets if cut(plan.strategies[names[0]]))))


def listed(names, most: int = 8) -> str:
    """Return names as text for a message: the first ones, shortened, and the number of the others. Local."""
    names = list(names)
    said = [name if len(name) <= 60 else f"{name[:57]}..." for name in names[:most]]
    return ", ".join([*said, *([f"and {len(names) - most} more"] if len(names) > most else [])])


def with_buckets(plan: Plan, variables, largest: int | None = None) -> Plan:
    """Return the plan with buckets in backward order. A plan that has buckets is not changed. Local.

    Dense variables of a strategy share a bucket of up to ``largest`` bytes (None: BUCKET). Sparse variables share one
    if they are neighbours with equally many rows, as a weight and its bias: then the same rows of both are needed.

    Rows are pulled in a round for each microbatch of a rank, so that the first need not wait for the rows of the
    others. With local aggregation there is one round. Otherwise a row that two ranks of a machine need could be sent to
    it twice.
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
