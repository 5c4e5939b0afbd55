"""The exact bytes of a step, from the plan and from which rows are touched: what the ledger must show (I2).

Every strategy says what its variables send from rank to rank; here that is put together, by rank or by machine. The
closed formulas that it must equal where they hold: ``refimpl.plain.cost_table``.
"""

from itertools import groupby

import numpy as np

from kernels.exact_sum import DIGITS
from refimpl.plan.buckets import buckets_of
from refimpl.plan.parts import cut_lists
from refimpl.plan.plan import Plan

INDEX = 8  # bytes of a row number, of a count
INSIDE = ("gather", "scatter", "aggregate")
"""The phases of local aggregation, within a machine."""


def bytes_between(plan: Plan, variables, pulled, pushed) -> dict:
    """Return {(phase, variable, kind): B} of one step, B[i, j] the bytes that rank i sends rank j: (N, N) int64. Local.

    pulled[name][r]: row numbers that rank r needs.  pushed[name][r]: for each of its tree nodes, the rows that the
    node's gradient touches. (All ranks' sets: this is for tests, plans and simulations.)
    """
    def touched(variable):
        return (cut_lists(variable, pulled.get(variable.name, ())),
                [cut_lists(variable, own) for own in pushed.get(variable.name, ())])

    by_name, found = {v.name: v for v in variables}, [norm(plan)]
    for bucket in buckets_of(plan):
        for strategy, placed in together(plan, [by_name[name] for name in bucket.names]):
            found.append(strategy.bytes_between(placed, plan, touched))
    total: dict = {}
    for key, matrix in (item for part in found for item in part.items()):
        total[key] = total[key] + matrix if key in total else matrix
    return {key: matrix for key, matrix in total.items() if matrix.any()}


def together(plan: Plan, variables) -> list[tuple[type, list]]:
    """Return (strategy's class, [(variable, strategy)]) of what variables are worth that are exchanged together. Local.

    A variable that is two in one (hot rows) is here as both.
    """
    parts = [part for v in variables for part in plan.strategies[v.name].parts(v)]
    kinds = list(dict.fromkeys(type(strategy) for _, strategy in parts))
    parts.sort(key=lambda part: kinds.index(type(part[1])))
    return [(kind, list(some)) for kind, some in groupby(parts, key=lambda part: type(part[1]))]


def norm(plan: Plan) -> dict:
    """Return the bytes of the exact sums of loss and norm, n = 8 (2 · 67 + 1) each.

    To a machine's first rank, between these, and back.
    """
    matrix, machines = np.zeros((plan.ranks, plan.ranks), np.int64), plan.on_machines
    firsts = [ranks[0] for ranks in machines]
    for first, *mates in machines:
        peers = [r for r in firsts if r != first]
        for a, b in [(first, r) for r in mates + peers] + [(r, first) for r in mates]:
            matrix[a, b] = INDEX * (2 * DIGITS + 1)
    return {("norm", "", "control"): matrix}


def ledger_keys(plan: Plan, variables) -> list[tuple[str, str, str]]:
    """Return every (phase, variable, kind) that a step's ledger may hold, in one order on all ranks. Local."""
    left_out = INSIDE if plan.aggregators() is None else ()
    keys = [(phase, v.name, kind) for v in variables for _, part in plan.strategies[v.name].parts(v)
            for phase, kind in part.keys]
    control = {"norm"} | {phase for phase, _, kind in keys if kind == "indices"}
    return [key for key in keys + [(phase, "", "control") for phase in sorted(control)] if key[0] not in left_out]


def predict_step(plan: Plan, variables, pulled, pushed, rank: int, crossing: bool = False) -> dict:
    """Return {(phase, variable, kind): (sent, received)} in bytes of one step on one rank, without zero entries. Local.

    pulled, pushed: see ``bytes_between``.  crossing: only what goes to, and comes from, other machines.
    """
    return _in_and_out(bytes_between(plan, variables, pulled, pushed), _machines_of(plan) if crossing else None, [rank])


def predict_crossing(plan: Plan, variables, pulled, pushed, machine: int) -> dict:
    """Return {(phase, variable, kind): (sent, received)} in bytes that leave and reach a machine in a step. Local."""
    members = list(plan.on_machines[machine])
    return _in_and_out(bytes_between(plan, variables, pulled, pushed), _machines_of(plan), members)


def _machines_of(plan):
    """The machine of each rank: (N,) int64."""
    return np.array([next(i for i, ranks in enumerate(plan.on_machines) if r in ranks) for r in range(plan.ranks)])


def _in_and_out(matrices, machine_of, members) -> dict:
    found = {}
    for key, matrix in matrices.items():
        if machine_of is not None:
            matrix = matrix * (machine_of[:, None] != machine_of[None, :])
        found[key] = int(matrix[members].sum()), int(matrix[:, members].sum())
    return {key: value for key, value in found.items() if value != (0, 0)}
