"""Layers that are cut over groups of ranks: on every mesh the gradients of one device, bit for bit, byte for byte."""

import numpy as np
import pytest

from models import Batch
from models.perceptron import Perceptron
from refimpl.plain.adding.tree import add_up, microbatches_of
from refimpl.plain.model_parallel.groups import Group, summed_gradients

pytestmark = [pytest.mark.mpi, pytest.mark.ranks(2, 4)]

MICROBATCHES = 12
INPUTS, WIDTHS, OUTPUTS = 10, (16, 8), 3
SIZES = [4, 1, 5, 0, 2, 3, 1, 4, 6, 2, 3, 5]
"""Examples of the microbatches: odd, one, and none."""


def batches(dtype):
    rng = np.random.default_rng(5)
    return [Batch(rng.standard_normal((n, INPUTS)).astype(dtype), rng.standard_normal((n, OUTPUTS)).astype(dtype),
                  normaliser=sum(SIZES), key=v) for v, n in enumerate(SIZES)]


def on_one_device(model, dense, everything):
    found = {}
    for v in model.variables:
        leaves = {(i, i + 1): model.loss_and_gradients(dense, {}, batch)[1][v.name]
                  for i, batch in enumerate(everything)}
        found[v.name] = add_up(0, MICROBATCHES, leaves, np.add)
    return found


def cases(comm):
    return [k for k in (1, 2, 4) if comm.size % k == 0 and MICROBATCHES % comm.size == 0]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_every_mesh_sums_the_gradients_of_one_device(comm, dtype):
    model = Perceptron(INPUTS, WIDTHS, OUTPUTS, 8, keep=0.75, dtype=dtype)
    cut = [layer.name for layer in model.connected if layer.blocks > 1]
    dense, everything = {v.name: v.initial_value(3) for v in model.variables}, batches(dtype)
    expected = on_one_device(model, dense, everything)
    for members in cases(comm):
        group = Group(comm, members)
        mine = {name: np.split(value, members)[group.member] if name.partition(".")[0] in cut else value
                for name, value in dense.items()}
        own = everything[slice(*microbatches_of(comm.rank, comm.size, MICROBATCHES))]
        sums = summed_gradients(comm, group, model, mine, own, MICROBATCHES)
        for name, gradient in sums.items():
            part = np.split(expected[name], members)[group.member] if mine[name] is not dense[name] else expected[name]
            assert gradient.tobytes() == part.tobytes(), (name, members)
        assert dict(group.ranks.sent) == formulas(comm, members, np.dtype(dtype).itemsize)


def formulas(comm, members, size):
    """Bytes that this rank sends its group: B examples of its own, B' of the others."""
    if members == 1:
        return {}
    of = [sum(SIZES[slice(*microbatches_of(r, comm.size, MICROBATCHES))]) for r in range(comm.size)]
    first = comm.rank // members * members
    own, group = of[comm.rank], sum(of[first:first + members])
    others = members - 1
    return {"keys": 8 * others * MICROBATCHES // comm.size,
            "rows": size * INPUTS * (others * own + group - own),
            "columns": size * WIDTHS[0] // members * 2 * others * group,
            "out": size * WIDTHS[1] // members * (group - own + others * own)}
