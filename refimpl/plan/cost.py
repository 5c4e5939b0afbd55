"""The bytes of one step, from the plan and from which rows were touched: what the ledger must show (DESIGN, I2).

Each function returns, for one rank, {(phase, variable, kind): (sent, received)}. Notation: N ranks, d columns,
s bytes an element, 8 bytes a row number; K[r, o] rows that rank r pulls from owner o; G[r, o] gradient rows that it
pushes there; k_r gradient rows that it gathers out. A rank whose microbatches form c_r tree nodes sends c_r parts.
"""

from collections import defaultdict

import numpy as np

from refimpl.gradients import TOUCHED, Layout, cover, leaves_of
from refimpl.plan.placement import Plan

INDEX = 8  # bytes of a row number
EXACT_SUM = 67  # int64 digits of an exact sum (refimpl.gradients.exact_sum)


def pull_rows(variable, K, rank):
    """Server, sparse, pull: 8 Σ_{o≠r} K[r, o] indices out, and d s of each row back."""
    out, back = _others(K[rank], rank), _others(K[:, rank], rank)
    width = variable.shape[1] * np.dtype(variable.dtype).itemsize
    return {("pull", variable.name, "indices"): (INDEX * out, INDEX * back),
            ("pull", variable.name, "rows"): (width * back, width * out)}


def push_rows(variable, G, rank):
    """Server, sparse, push: (8 + d s) Σ_{o≠r} G[r, o] out."""
    out, back = _others(G[rank], rank), _others(G[:, rank], rank)
    width = variable.shape[1] * np.dtype(variable.dtype).itemsize
    return {("push", variable.name, "indices"): (INDEX * out, INDEX * back),
            ("push", variable.name, "rows"): (width * out, width * back)}


def allgather_rows(variable, k, rank):
    """Allgather, sparse: (8 + d s) (N - 1) k_r out, (8 + d s) Σ_{q≠r} k_q in."""
    out, back = (len(k) - 1) * int(k[rank]), _others(k, rank)
    width = variable.shape[1] * np.dtype(variable.dtype).itemsize
    return {("allgather", variable.name, "indices"): (INDEX * out, INDEX * back),
            ("allgather", variable.name, "rows"): (width * out, width * back)}


def server_dense(variable, owner, nodes, rank):
    """Server, dense: the owner sends w to N - 1 ranks and is sent c_r w by each (PAPER.md: 2 w (N - 1) at the owner)."""
    w, ranks = variable.nbytes, len(nodes)
    if rank == owner:
        pushed = w * (sum(len(n) for n in nodes) - len(nodes[rank]))
        return {("pull", variable.name, "dense"): (w * (ranks - 1), 0), ("push", variable.name, "dense"): (0, pushed)}
    return {("pull", variable.name, "dense"): (0, w), ("push", variable.name, "dense"): (w * len(nodes[rank]), 0)}


def allreduce_dense(layout: Layout, schedule, rank):
    """Allreduce: what the schedule's transfers hold of each array; in all 2 (N - 1)/N n out where every c_r is 1."""
    bounds, itemsize = schedule.bounds(layout.size), np.dtype(layout.dtype).itemsize
    total = defaultdict(lambda: [0, 0])
    for step in schedule.rounds:
        for t in step.of(rank).transfers:
            for name, elements in layout.overlaps(bounds[t.start], bounds[t.stop]).items():
                total["allreduce", name, "dense"][t.source != rank] += elements * itemsize
    return {key: tuple(value) for key, value in total.items()}


def control(plan: Plan, nodes, rank=0):
    """What the ranks tell each other to get ready: counts of rows, and the exact sums of loss and norm."""
    others, most = plan.ranks - 1, max(len(n) for n in nodes)
    served, gathered = len(plan.names("server", True)), len(plan.names("allgather", True))
    words = {"pull": served, "push": most * served, "allgather": most * gathered}
    found = {(phase, "", "control"): (INDEX * n * others,) * 2 for phase, n in words.items() if n}
    machines = plan.machines or (tuple(range(plan.ranks)),)
    machine = next(m for m in machines if rank in m)
    peers = len(machine) + len(machines) - 2 if rank == machine[0] else 1
    return {**found, ("norm", "", "control"): (INDEX * (2 * EXACT_SUM + 1) * peers,) * 2}


WAY_KEYS = {
    ("server", True): (("pull", "indices"), ("pull", "rows"), ("push", "indices"), ("push", "rows")),
    ("server", False): (("pull", "dense"), ("push", "dense")),
    ("allgather", True): (("allgather", "indices"), ("allgather", "rows")),
    ("as-dense", True): (("allreduce", "dense"),),
    ("allreduce", False): (("allreduce", "dense"),),
}
"""(way, sparse) -> the (phase, kind) in which a variable's bytes travel."""


def ledger_keys(plan: Plan) -> list[tuple[str, str, str]]:
    """Return every (phase, variable, kind) that a step's ledger may hold, in one order on all ranks. Local."""
    nodes = [cover(leaves_of(r, plan.ranks, plan.microbatches)) for r in range(plan.ranks)]
    keys = [(phase, p.variable, kind) for p in plan.placements for phase, kind in WAY_KEYS[p.way, p.sparse]]
    return keys + sorted(control(plan, nodes))


def _others(numbers, rank) -> int:
    return int(sum(numbers)) - int(numbers[rank])


def predict_step(plan: Plan, variables, pulled, pushed, rank: int) -> dict:
    """Return {(phase, variable, kind): (sent, received)} in bytes for one step on one rank, zero entries left out. Local.

    pulled[name][r]: row numbers that rank r needs.  pushed[name][r]: for each of its tree nodes, the rows that the
    node's gradient touches. (All ranks' sets: this is for tests, plans and simulations.)
    """
    by_name = {v.name: v for v in variables}
    nodes = [cover(leaves_of(r, plan.ranks, plan.microbatches)) for r in range(plan.ranks)]
    bytes_of: dict = dict(control(plan, nodes, rank))
    for p in plan.placements:
        v = by_name[p.variable]
        if p.way == "server" and p.sparse:
            parts = plan.partitioning(v)
            bytes_of |= pull_rows(v, np.array([parts.route(ids).counts for ids in pulled[v.name]]), rank)
            pushes = [sum((parts.route(ids).counts for ids in per_node), np.zeros(plan.ranks, np.int64))
                      for per_node in pushed[v.name]]
            bytes_of |= push_rows(v, np.array(pushes), rank)
        elif p.way == "server":
            bytes_of |= server_dense(v, p.owners[0], nodes, rank)
        elif p.way == "allgather":
            k = [sum(len(ids) for ids in per_node) for per_node in pushed[v.name]]
            bytes_of |= allgather_rows(v, k, rank)
    schedule = plan.schedule()
    for layout in allreduce_layouts(plan, by_name):
        for (phase, name, kind), (sent, received) in allreduce_dense(layout, schedule, rank).items():
            key = (phase, name.removesuffix(TOUCHED), kind)
            before = bytes_of.get(key, (0, 0))
            bytes_of[key] = (before[0] + sent, before[1] + received)
    return {key: value for key, value in bytes_of.items() if value != (0, 0)}


def allreduce_layouts(plan: Plan, by_name):
    """Return the arenas that the plan's allreduces sum: dense variables; sparse ones as dense with their marks."""
    layouts = []
    if dense := plan.names("allreduce", False):
        layouts.append(Layout.of([by_name[n] for n in dense]))
    if as_dense := plan.names("as-dense", True):
        layouts.append(Layout.of([by_name[n] for n in as_dense]).with_marks())
    return layouts
