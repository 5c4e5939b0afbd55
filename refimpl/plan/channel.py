"""The slot that each transfer of a plan would have in a tensor channel: static, bounded or dynamic, as plain data.

    static    the plan fixes the shape: the reader allocates the slot once                        n + 8 + 8 bytes
    bounded   few rows at most: a slot for the most, and the number of rows                       n + 8 + 8 + 8
    dynamic   too many rows for a slot: dtype and shape come first, then the reader fetches rows  n + m + 8, m = 40

Each (phase, variable, writer, reader) has a slot. The plain version: ``refimpl.plain.collectives.channel``.
"""

from collections import defaultdict
from typing import NamedTuple

import numpy as np

from refimpl.gradients import cover, leaves_of
from refimpl.plan.cost import bytes_between, machine_numbers
from refimpl.plan.plan import Plan
from refimpl.plan.predict import Predictor

BOUND = 1 << 20
"""The largest number of bytes in a slot for rows. Each pair of ranks needs one for each variable and phase."""
BESIDE = {"static": 16, "bounded": 24, "dynamic": 48}
"""Form -> bytes beside the tensor. static: signal and credit; bounded: also a length; dynamic: also dtype and shape."""


class SlotTransfer(NamedTuple):
    """What rank ``writer`` sends to rank ``reader`` of a variable in a phase of a step.

    form: a key of BESIDE.  capacity: the most bytes.  nbytes: the mean over the sampled steps, with those of BESIDE.
    seconds: predicted for this transfer alone.
    """

    variable: str
    phase: str
    kind: str
    writer: int
    reader: int
    form: str
    capacity: int
    nbytes: float
    seconds: float


def transfers_of(plan: Plan, predictor: Predictor) -> list[SlotTransfer]:
    """Return every transfer of a step. Local. Raises ValueError for a plan with a mesh."""
    if plan.mesh:
        raise ValueError("--channel has no slots for activations: leave --mesh out")
    sample, variables, ranks = predictor.sample, predictor.variables, plan.ranks
    sparse, steps = [v for v in variables if v.sparse], max(1, len(sample.steps))
    mean: dict = defaultdict(float)
    for i in range(steps if sample.steps else 0):
        found = bytes_between(plan, variables, {v.name: sample.pulled(i, v.name, ranks) for v in sparse},
                              {v.name: sample.pushed(i, v.name, ranks) for v in sparse})
        for key, matrix in found.items():
            mean[key] = mean[key] + matrix / steps
    most = bytes_between(plan, variables, *_everything(plan, sparse))
    return [_transfer(plan, predictor.network, key, writer, reader, int(matrix[writer, reader]),
                      float((mean[key] if sample.steps else matrix)[writer, reader]))
            for key, matrix in most.items() for writer, reader in np.argwhere(matrix).tolist()]


def _everything(plan, sparse):
    """Return what each rank would pull and push if it touched every row."""
    nodes = [len(cover(leaves_of(rank, plan.ranks, plan.microbatches))) for rank in range(plan.ranks)]
    rows = {v.name: np.arange(v.shape[0]) for v in sparse}
    return ({name: [ids] * plan.ranks for name, ids in rows.items()},
            {name: [[ids] * count for count in nodes] for name, ids in rows.items()})


def _transfer(plan, network, key, writer, reader, capacity, payload):
    phase, variable, kind = key
    form = "static" if kind in ("dense", "control") else "bounded" if capacity <= BOUND else "dynamic"
    nbytes = payload + BESIDE[form]
    a, b = machine_numbers(plan)[[writer, reader]]
    seconds = (network.latency_within + nbytes / network.memory_bandwidth[a] if a == b else
               network.latency + nbytes / min(network.bandwidth_out[a], network.bandwidth_in[b]))
    return SlotTransfer(variable, phase, kind, writer, reader, form, capacity, nbytes, seconds)


def rows_of_table(transfers: list[SlotTransfer]) -> list[tuple]:
    """Return a table's rows: (variable, phase, kind, form, slots, largest slot, all bytes, longest seconds). Local."""
    groups = defaultdict(list)
    for one in transfers:
        groups[one.variable, one.phase, one.kind, one.form].append(one)
    return [(*key, len(some), max(one.capacity for one in some), round(sum(one.nbytes for one in some)),
             max(one.seconds for one in some)) for key, some in groups.items()]
