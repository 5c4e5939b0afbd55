"""Equals plain/strategies/cost_table.py, for any rows and plan: a step's exact bytes, as the ledger counts them (I2).

Each strategy gives the bytes of its variables from rank to rank. Here they are added up, by rank or by machine.
"""

from itertools import groupby

import numpy as np

from kernels.exact_sum import DIGITS
from refimpl.plan.buckets import buckets_of
from refimpl.gradients.codecs import codec_of
from refimpl.plan.activations import activations_between
from refimpl.plan.codecs import encoded
from refimpl.plan.partitions.parts import cut_lists
from refimpl.plan.plan import Plan

INDEX = 8  # bytes of a row number or a count
SAID = 5  # counts that ranks add up with loss and norm
INSIDE = ("gather", "scatter", "aggregate")
"""The phases of local aggregation, within a machine."""


def bytes_between(plan: Plan, variables, pulled, pushed, examples=()) -> dict:
    """Return {(phase, variable, kind): B} of one step; B[i, j]: bytes that rank i sends to rank j, (N, N) int64. Local.

    pulled[name][r]: row numbers that rank r needs.  pushed[name][r]: for each tree node of rank r, the rows that its
    gradient touches. Both are of all ranks, for tests, plans and simulations.
    examples: the number of examples in each microbatch; needed if the plan has a mesh.
    """
    def touched(variable):
        return (cut_lists(variable, pulled.get(variable.name, ())),
                [cut_lists(variable, own) for own in pushed.get(variable.name, ())])

    by_name, found = {v.name: v for v in variables}, [norm(plan)]
    for bucket in buckets_of(plan):
        for strategy, placed in together(plan, [by_name[name] for name in bucket.names]):
            found.append(strategy.bytes_between(placed, plan, touched))
    found.append(activations_between(plan, variables, examples))
    total: dict = {}
    for key, matrix in (item for part in found for item in part.items()):
        total[key] = total.get(key, 0) + np.asarray(matrix)
    return {key: matrix for key, matrix in total.items() if matrix.any()}


def together(plan: Plan, variables) -> list[tuple[type, list]]:
    """Return [(strategy class, [(variable, strategy)])]: the variables that are exchanged together. Local.

    A variable with two strategies (hot rows) is here as two parts. Variables that are exchanged together have one
    codec.
    """
    def kind_of(part):
        return type(part[1]), part[1].codec

    parts = [part for v in variables for part in plan.strategies[v.name].parts(v)]
    kinds = list(dict.fromkeys(map(kind_of, parts)))
    parts.sort(key=lambda part: kinds.index(kind_of(part)))
    return [(kind, list(some)) for (kind, _), some in groupby(parts, key=kind_of)]


def norm(plan: Plan) -> dict:
    """Return the bytes of the exact sums of loss and norm, and of SAID counts: 8 (2 · 67 + 5) in each message.

    Each rank sends them to the first rank of its machine, first ranks to each other, and they send the sums back.
    """
    return _totals(plan, 2 * DIGITS + SAID)


def metrics(plan: Plan, names) -> dict:
    """Return the bytes that metrics of these names add: an exact sum for each. Local."""
    return _totals(plan, DIGITS * len(names), "metrics")


def _totals(plan: Plan, numbers: int, phase="norm") -> dict:
    matrix, machines = np.zeros((plan.ranks, plan.ranks), np.int64), plan.on_machines
    firsts = [ranks[0] for ranks in machines]
    for first, *peers in machines:
        for a, b in [(first, r) for r in peers + firsts if r != first] + [(r, first) for r in peers]:
            matrix[a, b] = INDEX * numbers
    return {(phase, "", "control"): matrix}


def ledger_keys(plan: Plan, variables, names=()) -> list[tuple[str, str, str]]:
    """Return every (phase, variable, kind) of a step's ledger, in one order. names: of the metrics. Local."""
    left_out = INSIDE if plan.aggregators() is None else ()
    keys = [(phase, v.name, kind) for v in variables for _, part in plan.strategies[v.name].parts(v)
            for phase, kind in part.keys]
    keys += [("metrics", "", "control")] * bool(names)
    keys += [("scale", "", "control")] * any(codec_of(codec).scaled for codec in encoded(plan).values())
    counted = ("rows", "activations")  # beside which it is told how many there are
    control = {"norm"} | {phase for phase, _, kind in keys if kind == "indices" or (phase, kind) == counted}
    return [key for key in keys + [(phase, "", "control") for phase in sorted(control)] if key[0] not in left_out]


def predict_step(plan: Plan, variables, pulled, pushed, rank: int | list[int], crossing: bool = False,
                 examples=()) -> dict:
    """Return {(phase, variable, kind): (sent, received)} in bytes of one step, without zero entries. Local.

    pulled, pushed, examples: see ``bytes_between``.  rank: a rank, or several, whose bytes are added up.
    crossing: count only bytes between different machines.
    """
    machine = machine_numbers(plan)
    counted = machine[:, None] != machine if crossing else True
    between = bytes_between(plan, variables, pulled, pushed, examples)
    matrices = {key: counted * sent for key, sent in between.items()}
    found = {key: (int(sent[rank].sum()), int(sent[:, rank].sum())) for key, sent in matrices.items()}
    return {key: value for key, value in found.items() if value != (0, 0)}


def predict_crossing(plan: Plan, variables, pulled, pushed, machine: int, examples=()) -> dict:
    """Return {(phase, variable, kind): (sent, received)}: bytes that leave and enter a machine in a step. Local."""
    return predict_step(plan, variables, pulled, pushed, list(plan.on_machines[machine]), True, examples)


def machine_numbers(plan: Plan) -> np.ndarray:
    """Return the machine of each rank: (N,) int64. Local."""
    number = np.empty(plan.ranks, np.int64)
    for machine, ranks in enumerate(plan.on_machines):
        number[list(ranks)] = machine
    return number
