"""The server's exchanges by themselves: parts of any size are placed and collected, and nothing moves without a need.

That what is pulled is right, and each gradient counted once, say the bits of whole trainings (tests/training).
"""

import numpy as np
import pytest
from mpi4py import MPI

from kernels import RowGradient
from models import Uniform, Variable
from refimpl.plan import Placement, Plan
from refimpl.server import Partitioning
from refimpl.strategies import Columns, ReduceScatter, ServedDense, ServedRows, blocks
from refimpl.strategies.blocks import assembled
from refimpl.transport import Communicator

pytestmark = [pytest.mark.mpi, pytest.mark.ranks(3, 4)]

ROWS = 29
TABLES = [Variable("wide", (ROWS, 5), sparse=True, initial=Uniform(1.0), dtype="float64"),
          Variable("thin", (ROWS, 1), sparse=True, initial=Uniform(1.0), dtype="float64"),
          Variable("none", (0, 3), sparse=True, dtype="float64")]
CUT = [Variable("fc.weight", (12, 3), initial=Uniform(1.0)), Variable("fc.bias", (12,))]
DENSE = [Variable("a", (3, 4), initial=Uniform(1.0), dtype="float64"), Variable("empty", (0, 2), dtype="float64"),
         Variable("b", (7,), initial=Uniform(1.0), dtype="float64")]


def made(comm, variables, strategies, mesh=()):
    """Return the exchange of variables whose strategies are of one kind."""
    placed, communicator = list(zip(variables, strategies)), Communicator.of(comm)
    plan = Plan("ps", comm.size, comm.size, "direct", tuple(Placement(v.name, s) for v, s in placed),
                communicator.machines, mesh=mesh)
    return type(strategies[0]).exchange(placed, plan, communicator, 1, np, True)


@pytest.mark.parametrize("everyone", [False, True])
@pytest.mark.parametrize("kind", ["contiguous", "interleaved", "dense server", "reduce-scatter", "columns"])
@pytest.mark.parametrize("block", [60, blocks.BLOCK])
def test_variables_are_placed_and_collected(comm, kind, everyone, block, monkeypatch):
    """In blocks of a few rows, or all at once."""
    monkeypatch.setattr(blocks, "BLOCK", block)
    variables, strategies, mesh = DENSE, [ReduceScatter()] * len(DENSE), ()
    if kind == "columns":
        members = comm.size if block == 60 else 2 - comm.size % 2
        variables, strategies, mesh = CUT, [Columns(members)] * 2, (comm.size // members, members)
    elif kind == "dense server":
        strategies = [ServedDense((owner,)) for owner in (comm.size - 1, 0, 0)]
    elif kind != "reduce-scatter":
        variables = TABLES
        strategies = [ServedRows(Partitioning.round_robin(v.shape[0], 4, comm.size).owners, kind) for v in TABLES]
    exchange = made(comm, variables, strategies, mesh)
    for v in variables:
        given = np.arange(v.size, dtype=v.dtype).reshape(v.shape)
        for expected in (v.initial_value(1), given):
            whole = assembled(exchange.blocks(v.name, None, range(comm.size if everyone else 1), "collect"), v)
            assert np.array_equal(whole, expected) if everyone or comm.rank == 0 else whole is None
            exchange.place(v.name, None, lambda rows, given=given: given[
                ... if rows is None else slice(rows.start, rows.stop, rows.step)])


def test_pairs_of_ranks_that_exchange_nothing():
    """Every rank needs only what it owns: not a byte of rows or numbers moves."""
    comm = MPI.COMM_WORLD
    parts = {v.name: Partitioning.round_robin(v.shape[0], comm.size, comm.size) for v in TABLES}
    exchange = made(comm, TABLES, [ServedRows(parts[v.name].owners) for v in TABLES])
    own, ledger = {v.name: parts[v.name].global_rows(comm.rank) for v in TABLES}, exchange.comm.ledger
    rows = exchange.pull(own)
    assert all(np.array_equal(rows[v.name], v.initial_value(1)[own[v.name]]) for v in TABLES)
    exchange.add(comm.rank, {name: RowGradient(ids, np.ones((len(ids), rows[name].shape[1])))
                             for name, ids in own.items()})
    assert all((s.gradient == 1).all() for s in exchange.push())
    assert ledger.total(kind="rows") == ledger.total(kind="indices") == 0
