"""Who sends whom how many bytes in one step, from the plan and from which rows are touched (DESIGN, I2).

Each function returns {(phase, variable, kind): B}, B[i, j] the bytes that rank i sends rank j: (N, N) int64. Notation:
d columns, s bytes an element, 8 bytes a row number; K[r, o] rows that rank r wants of owner o, U[g, o] those that its
group g wants together; a rank's microbatches form c_r tree nodes, a group's c_g; t_o partitions of owner o. The handler
h(g, o) speaks to o for g; o itself if it is in g. Without local aggregation each rank is a group.
"""

from collections import defaultdict

import numpy as np

from refimpl.gradients import TOUCHED, Layout, cover, leaves_of
from refimpl.plan.balance import row_bytes
from refimpl.plan.buckets import buckets_of
from refimpl.plan.hot_rows import apart, hot_name, split_lists, split_nodes, split_rows
from refimpl.plan.placement import Plan
from refimpl.plan.sample import union
from refimpl.server.groups import Groups, group_nodes

INDEX = 8  # bytes of a row number
EXACT_SUM = 67  # int64 digits of an exact sum (refimpl.gradients.exact_sum)


def through_handlers(groups: Groups, K, U):
    """Return (inside, across), (N, N) each: what ranks hand to handlers, and these to owners.

    inside[r, h] = Σ_{o: h(g(r), o) = h} K[r, o] for r != h.    across[h(g, o), o] = U[g, o] for o outside g.
    """
    ranks = groups.ranks
    handler = np.array([[groups.handler(groups.group_of(r), o) for o in range(ranks)] for r in range(ranks)])
    inside, across = np.zeros((ranks, ranks), np.int64), np.zeros((ranks, ranks), np.int64)
    np.add.at(inside, (np.arange(ranks)[:, None], handler), K)
    np.fill_diagonal(inside, 0)
    for group, members in enumerate(groups.members):
        for owner in set(range(ranks)) - set(members):
            across[handler[members[0], owner], owner] += U[group, owner]
    return inside, across


def pull_rows(variable, parts, groups: Groups, pulled, rounds: int = 1):
    """Server, sparse, pull: 8 bytes a row number to the handler and 8 for each of the union to the owner; d s back.

    rounds: in how many pulls the rows are asked for; in each, handler and owner are told how many of each partition.
    """
    K, width = _counts(parts, pulled), row_bytes(variable)
    U = _counts(parts, [union([pulled[r] for r in members]) for members in groups.members])
    inside, across = through_handlers(groups, K, U)
    pieces = np.array([len(parts.partitions_of(o)) for o in range(groups.ranks)])
    asked, announced = through_handlers(groups, np.tile(pieces, (len(K), 1)), np.tile(pieces, (len(U), 1)))
    name = variable.name
    return {("unite", "", "control"): INDEX * rounds * asked, ("unite", name, "indices"): INDEX * inside,
            ("pull", "", "control"): INDEX * rounds * announced, ("pull", name, "indices"): INDEX * across,
            ("pull", name, "rows"): width * across.T, ("spread", name, "rows"): width * inside.T}


def push_rows(variable, parts, groups: Groups, pushed, leaves: int):
    """Server, sparse, push: (8 + d s) for each row of each rank's nodes to the handler, of its group's to the owner."""
    ranks, width = groups.ranks, row_bytes(variable)
    K = np.array([_counts(parts, per_node).sum(axis=0) for per_node in pushed])
    U, joined = [], []
    for members in groups.members:
        of_group = [ids for rank in members for ids in pushed[rank]]
        joined.append(group_nodes(members, ranks, leaves))
        U.append(_counts(parts, [union([of_group[i] for i in some]) for _, some in joined[-1]]).sum(axis=0))
    inside, across = through_handlers(groups, K, np.array(U))
    pieces = np.array([len(parts.partitions_of(o)) for o in range(ranks)])
    asked, announced = through_handlers(groups, np.outer([len(n) for n in pushed], pieces),
                                        np.outer([len(n) for n in joined], pieces))
    name = variable.name
    return {("aggregate", "", "control"): INDEX * asked, ("aggregate", name, "indices"): INDEX * inside,
            ("aggregate", name, "rows"): width * inside, ("push", "", "control"): INDEX * announced,
            ("push", name, "indices"): INDEX * across, ("push", name, "rows"): width * across}


def server_dense(variable, owner: int, groups: Groups, leaves: int):
    """Server, dense, w bytes: the owner sends w to each other group and is sent c_g w (PAPER.md: 2 w (N - 1))."""
    ranks, name = groups.ranks, variable.name
    whole = np.zeros((1, ranks), np.int64)
    whole[0, owner] = variable.nbytes
    nodes = np.array([len(cover(leaves_of(r, ranks, leaves))) for r in range(ranks)])
    joined = np.array([len(group_nodes(members, ranks, leaves)) for members in groups.members])
    inside, across = through_handlers(groups, np.tile(whole, (ranks, 1)), np.tile(whole, (len(joined), 1)))
    summed, pushed = through_handlers(groups, nodes[:, None] * whole, joined[:, None] * whole)
    return {("pull", name, "dense"): across.T, ("spread", name, "dense"): inside.T,
            ("aggregate", name, "dense"): summed, ("push", name, "dense"): pushed}


def allgather_rows(variable, pushed, most: int):
    """Allgather, sparse, k_r gradient rows: (8 + d s) k_r to each other rank."""
    k = np.array([sum(len(ids) for ids in per_node) for per_node in pushed])
    everyone = k[:, None] * _others(len(k))
    return {("allgather", "", "control"): INDEX * most * _others(len(k)),
            ("allgather", variable.name, "indices"): INDEX * everyone,
            ("allgather", variable.name, "rows"): row_bytes(variable) * everyone}


def allreduce_dense(layout: Layout, schedule):
    """Allreduce: what the schedule's transfers hold of each array; in all 2 (N - 1)/N n out where every c_r is 1."""
    bounds, itemsize = schedule.bounds(layout.size), np.dtype(layout.dtype).itemsize
    total: dict = defaultdict(lambda: np.zeros((schedule.ranks, schedule.ranks), np.int64))
    found: dict = {}
    for t in (t for step in schedule.rounds for t in step.transfers):
        if (t.start, t.stop) not in found:
            found[t.start, t.stop] = layout.overlaps(bounds[t.start], bounds[t.stop])
        for name, elements in found[t.start, t.stop].items():
            total["allreduce", name.removesuffix(TOUCHED), "dense"][t.source, t.destination] += elements * itemsize
    return dict(total)


def norm(plan: Plan):
    """The exact sums of loss and norm, n = 8 (2 * 67 + 1) bytes: to a machine's first rank, between these, and back."""
    matrix, machines = np.zeros((plan.ranks, plan.ranks), np.int64), plan.on_machines
    firsts = [ranks[0] for ranks in machines]
    for first, *mates in machines:
        peers = [r for r in firsts if r != first]
        for a, b in [(first, r) for r in mates + peers] + [(r, first) for r in mates]:
            matrix[a, b] = INDEX * (2 * EXACT_SUM + 1)
    return {("norm", "", "control"): matrix}


def bytes_between(plan: Plan, variables, pulled, pushed) -> dict:
    """Return {(phase, variable, kind): (N, N) int64 bytes from rank to rank} of one step, whatever the options. Local.

    pulled[name][r]: row numbers that rank r needs.  pushed[name][r]: for each of its tree nodes, the rows that the
    node's gradient touches. (All ranks' sets: this is for tests, plans and simulations.)
    """
    if any(p.hot for p in plan.placements):
        return _with_hot_rows(plan, variables, pulled, pushed)
    by_name = {v.name: v for v in variables}
    groups, leaves = plan.groups(), plan.microbatches
    most = max(len(cover(leaves_of(r, plan.ranks, leaves))) for r in range(plan.ranks))
    found = [norm(plan)]
    for p in plan.placements:
        v = by_name[p.variable]
        if p.way == "server" and p.sparse:
            parts = plan.partitioning(v)
            found += [pull_rows(v, parts, groups, pulled[v.name], plan.pull_rounds),
                      push_rows(v, parts, groups, pushed[v.name], leaves)]
        elif p.way == "server":
            found.append(server_dense(v, p.owners[0], groups, leaves))
        elif p.way == "allgather":
            found.append(allgather_rows(v, pushed[v.name], most))
    schedule = plan.schedule()
    found += [allreduce_dense(layout, schedule) for layout in allreduce_layouts(plan, by_name)]
    total: dict = {}
    for key, matrix in (item for part in found for item in part.items()):
        total[key] = total[key] + matrix if key in total else matrix
    return {key: matrix for key, matrix in total.items() if matrix.any()}


def _with_hot_rows(plan, variables, pulled, pushed):
    """Return what ``bytes_between`` does, of a plan in which some variables are two: hot rows and the rest."""
    parts, both = apart(plan, variables)
    found = bytes_between(parts, both, split_rows(plan, pulled, split_lists), split_rows(plan, pushed, split_nodes))
    whole, total = {hot_name(p.variable): p.variable for p in plan.placements if p.hot}, {}
    for (phase, name, kind), matrix in found.items():
        key = phase, whole.get(name, name), kind
        total[key] = total.get(key, 0) + matrix
    return total


def allreduce_layouts(plan: Plan, by_name) -> list[Layout]:
    """Return the arenas that the plan's allreduces sum, one a bucket: sparse variables as dense with their marks."""
    layouts = []
    for way, sparse, names in buckets_of(plan):
        if way in ("allreduce", "as-dense"):
            layout = Layout.of([by_name[name] for name in names])
            layouts.append(layout.with_marks() if sparse else layout)
    return layouts


def _counts(parts, id_lists):
    """Return (lists, N) int64: the rows of each list by owner."""
    return np.array([parts.counts(ids) for ids in id_lists], np.int64).reshape(-1, parts.ranks)


def _others(ranks):
    return 1 - np.eye(ranks, dtype=np.int64)
