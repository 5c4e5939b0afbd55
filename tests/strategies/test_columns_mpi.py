"""Parts of cut layers by themselves: a group's members have the whole variable between them."""

import numpy as np
import pytest

from models import Uniform, Variable
from refimpl.plan import make_plan
from refimpl.plan.mesh import with_mesh
from refimpl.strategies import Columns
from refimpl.strategies.blocks import assembled
from refimpl.transport import Communicator
from refimpl.transport.machines import in_blocks

pytestmark = [pytest.mark.mpi(min_size=2), pytest.mark.ranks(2, 4)]

LAYER = [Variable("fc.weight", (8, 3), blocks=4, initial=Uniform(1.0)), Variable("fc.bias", (8,), blocks=4)]


@pytest.mark.parametrize("everyone", [False, True])
def test_parts_are_placed_and_collected(comm, everyone):
    for members in (2, comm.size):
        plan = with_mesh(make_plan(LAYER, "allreduce", comm.size, 4), LAYER, f"{comm.size // members}x{members}")
        placed = [(v, plan.strategies[v.name]) for v in LAYER]
        exchange = Columns.exchange(placed, plan, Communicator(comm, in_blocks(comm.size, 1)), 1, np, False)
        for v in LAYER:
            whole = assembled(exchange.blocks(v.name, None, range(comm.size) if everyone else [0], "collect"), v)
            assert np.array_equal(whole, v.initial_value(1)) if everyone or comm.rank == 0 else whole is None
            target = np.arange(v.size, dtype=v.dtype).reshape(v.shape)
            exchange.place(v.name, None, lambda rows, target=target: target[rows.start:rows.stop])
            first = comm.rank % members * 8 // members
            assert np.array_equal(exchange.shards[v.name].values, target[first:first + 8 // members])
            whole = assembled(exchange.blocks(v.name, None, range(comm.size) if everyone else [0], "collect"), v)
            assert np.array_equal(whole, target) if everyone or comm.rank == 0 else whole is None
