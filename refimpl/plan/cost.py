"""A step's bytes by rank and by machine: what the ledger must show (DESIGN, I2). Formulas: ``plan.bytes_between``."""

import numpy as np

from refimpl.plan.bytes_between import EXACT_SUM, allreduce_layouts, bytes_between
from refimpl.plan.placement import Plan

__all__ = ["EXACT_SUM", "WAY_KEYS", "allreduce_layouts", "ledger_keys", "predict_crossing", "predict_step"]

WAY_KEYS = {
    ("server", True): (("unite", "indices"), ("pull", "indices"), ("pull", "rows"), ("spread", "rows"),
                       ("aggregate", "indices"), ("aggregate", "rows"), ("push", "indices"), ("push", "rows")),
    ("server", False): (("pull", "dense"), ("spread", "dense"), ("aggregate", "dense"), ("push", "dense")),
    ("allgather", True): (("allgather", "indices"), ("allgather", "rows")),
    ("as-dense", True): (("allreduce", "dense"),),
    ("allreduce", False): (("allreduce", "dense"),),
}
"""(way, sparse) -> the (phase, kind) in which a variable's bytes travel."""

INSIDE = ("unite", "spread", "aggregate")
"""The phases of local aggregation, within a machine."""


def ledger_keys(plan: Plan) -> list[tuple[str, str, str]]:
    """Return every (phase, variable, kind) that a step's ledger may hold, in one order on all ranks. Local."""
    left_out = () if len(plan.groups().members) < plan.ranks else INSIDE
    travels = [(p.variable, key) for p in plan.placements for way in ([p.way, p.hot_way] if p.hot else [p.way])
               for key in WAY_KEYS[way, p.sparse]]
    keys = [(phase, name, kind) for name, (phase, kind) in travels]
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
