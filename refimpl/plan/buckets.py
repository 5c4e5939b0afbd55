"""Which variables travel together, and in which order: small buckets leave while the backward pass goes on.

A bucket is one message's worth of variables of one way and kind. A backward pass reaches the variables declared last
first: so buckets leave in the reverse of the declaration, and what is pulled comes in its order.
"""

from dataclasses import replace
from typing import NamedTuple

from refimpl.gradients import leaves_of
from refimpl.plan.placement import Plan

BUCKET = 1 << 18  # bytes of dense variables: below, what each message costs anyway outweighs that it leaves sooner
ORDER = (("server", True), ("allgather", True), ("as-dense", True), ("server", False), ("allreduce", False))
"""(way, sparse) of the buckets of a plan that names none, in their order."""


class Bucket(NamedTuple):
    """Variables of one way and kind that are exchanged together."""

    way: str
    sparse: bool
    names: tuple[str, ...]


def buckets_of(plan: Plan) -> list[Bucket]:
    """Return the plan's buckets in the order in which their exchange begins. Local.

    Without any in the plan there is one for each way and kind. Raises ValueError unless every variable of the plan is
    in one bucket, with others of its way and kind.
    """
    if not plan.buckets:
        found = [Bucket(way, sparse, tuple(plan.names(way, sparse))) for way, sparse in ORDER]
        return [bucket for bucket in found if bucket.names]
    kinds = {p.variable: (p.way, p.sparse) for p in plan.placements}
    named = [name for names in plan.buckets for name in names]
    for name in {*kinds, *named}:
        if named.count(name) != (name in kinds):
            raise ValueError(f"the plan's buckets hold {name!r} {named.count(name)} times; name each variable once: "
                             f"{', '.join(kinds)}")
    for names in plan.buckets:
        if len({kinds[name] for name in names}) != 1:
            raise ValueError(f"the plan's bucket {list(names)} is empty or goes several ways: put only variables of "
                             f"one way and kind together")
    return [Bucket(*kinds[names[0]], names) for names in plan.buckets]


def with_buckets(plan: Plan, variables, largest: int | None = None) -> Plan:
    """Return the plan with buckets in backward order; as it is if it has any. Local.

    Dense variables fill a bucket of their way up to ``largest`` bytes, None: BUCKET (on the server: so many for each
    owner, for all of them to be at work). Sparse ones go together if they are neighbours with as many rows: then they
    are most likely asked for the same rows, as a weight and its bias are.

    Rows are pulled in as many rounds as a rank has microbatches, so that the first need not wait for the others'. But
    in one where the pulls of a machine's ranks are united: a row that two of them need would cross in two rounds.
    """
    if plan.buckets:
        return plan
    way_of = {p.variable: p.way for p in plan.placements}
    buckets, filling, above = [], {}, None
    for variable in reversed(variables):
        way = way_of[variable.name]
        kind = way, variable.sparse
        bucket = filling.get(kind)
        if variable.sparse:
            joins = bucket and above.sparse and above.shape[0] == variable.shape[0] and way_of[above.name] == way
        else:
            room = (BUCKET if largest is None else largest) * (plan.ranks if way == "server" else 1)
            joins = bucket and sum(v.nbytes for v in bucket) + variable.nbytes <= room
        if not joins:
            bucket = filling[kind] = []
        else:
            buckets.remove(bucket)
        bucket.append(variable)
        buckets.append(bucket)  # a bucket leaves when the last of its gradients is there
        above = variable
    names = (tuple(v.name for v in reversed(bucket)) for bucket in buckets)
    united = plan.local_aggregation and any(len(ranks) > 1 for ranks in plan.machines)
    most = max(len(leaves_of(rank, plan.ranks, plan.microbatches)) for rank in range(plan.ranks))
    return replace(plan, buckets=tuple(names), pull_rounds=1 if united else most)
