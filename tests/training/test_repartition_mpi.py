"""A training that changes its partitions on the way: same bits, bytes as predicted, nothing through rank 0."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from mpi4py import MPI
from test_bytes_mpi import counted
from toys import answer, answer_of, make_trainer, whole_state

from refimpl.plan.make import with_partitions
from refimpl.server import moves
from refimpl.server.moves import moves_of
from refimpl.server.partition import row_bytes
from refimpl.strategies import server as server_module
from refimpl.training.planning.partition_trials import repartition

pytestmark = [pytest.mark.mpi, pytest.mark.ranks(1, 3)]
PLANS = [(1, "contiguous"), (7, "interleaved"), (3, "contiguous"), (40, "contiguous"), (2, "interleaved")]


def moved_to(trainer, partitions, scheme):
    """Move a trainer to other partitions; return the plan that it followed before."""
    before, variables = trainer.plan, trainer.model.variables
    plan = with_partitions(before, variables, partitions)
    plan = plan.replaced({v.name: plan.strategies[v.name].with_owners(plan.strategies[v.name].owners, scheme)
                          for v in plan.partitioned(variables)})
    assert repartition(trainer.parameters, plan)
    return before


def moved_bytes(old, new, variables, arrays, rank):
    """Return {(phase, variable, kind): (sent, received)}: each row that changes its owner, with its state, once."""
    found = {}
    for v in old.partitioned(variables):
        moves, size = moves_of(old.partitioning(v), new.partitioning(v), rank), arrays * row_bytes(v)
        both = tuple(size * sum(len(rows) for r, rows in enumerate(side) if r != rank)
                     for side in (moves.leaving, moves.arriving))
        if any(both):
            found["repartition", v.name, "rows"] = both
    return found


@pytest.mark.parametrize("work,optimizer,architecture",
                         [("toy", "adam", "ps"), ("toy", "sgd", "hybrid"), ("lm", "adagrad", "hybrid")])
def test_one_answer_whatever_the_partitions_on_the_way(comm, work, optimizer, architecture):
    expected = answer(work, optimizer, MPI.COMM_SELF, steps=len(PLANS) + 1)
    trainer = make_trainer(work, optimizer, comm, architecture=architecture, steps=3)
    for partitions, scheme in PLANS:
        trainer.train_step()
        moved_to(trainer, partitions, scheme)
    assert answer_of(trainer) == expected


@pytest.mark.parametrize("piece", [1, 1 << 20])
def test_a_move_keeps_every_bit_and_counts_every_byte(comm, piece, monkeypatch):
    monkeypatch.setattr(moves, "PIECE", piece)
    trainer = make_trainer("toy", "adam", comm, architecture="hybrid", partitions=comm.size)
    trainer.train_step()
    variables, arrays = trainer.model.variables, 3
    for partitions, scheme in product((1, 5, comm.size, 50), ("contiguous", "interleaved")):
        state = whole_state(trainer)
        trainer.comm.ledger.clear()
        before = moved_to(trainer, partitions, scheme)
        found = {key: n for key, n in counted(trainer.comm.ledger).items() if key[2] != "control"}
        assert found == moved_bytes(before, trainer.plan, variables, arrays, comm.rank)
        after = whole_state(trainer)
        assert all(np.array_equal(state[key], after[key]) for key in state)
        for v in variables:
            if v.sparse:
                shard = trainer.parameters.exchange_of[v.name].shards[v.name]
                rows = trainer.plan.partitioning(v).rows_owned(comm.rank)
                assert [len(shard.array(slot)) for slot in (None, "first", "second")] == [rows] * 3


def test_the_check_would_see_a_wrong_row(comm, monkeypatch):
    """Tables filled in another order: the whole state is another."""
    trainer = make_trainer("toy", "adam", comm, architecture="hybrid", partitions=1)
    trainer.train_step()
    state = whole_state(trainer)
    right = moves_of

    def reversed_moves(old, new, rank):
        moves = right(old, new, rank)
        return replace(moves, arriving=[rows[::-1] for rows in moves.arriving])

    monkeypatch.setattr(server_module, "moves_of", reversed_moves)
    moved_to(trainer, 5, "interleaved")
    after = whole_state(trainer)
    assert not np.array_equal(state["table", None], after["table", None])


def test_without_memory_nothing_changes(comm, monkeypatch):
    """One rank cannot make its tables: no rank moves, and the training goes on."""
    trainer = make_trainer("toy", "adam", comm, architecture="hybrid")
    trainer.train_step()
    state, plan = whole_state(trainer), trainer.plan
    if comm.rank == comm.size - 1:
        def no_memory(exchange, plan):
            raise MemoryError
        monkeypatch.setattr(server_module.ServedRowsExchange, "tables_for", no_memory)
    other = with_partitions(plan, trainer.model.variables, 3 * comm.size + 1)
    assert not repartition(trainer.parameters, other) and trainer.parameters.plan == plan
    after = whole_state(trainer)
    assert all(np.array_equal(state[key], after[key]) for key in state)
    trainer.train_step()


def test_only_partitions_can_change(comm):
    trainer = make_trainer("toy", "sgd", comm, architecture="hybrid")
    with pytest.raises(ValueError, match="only the partitions of sparse variables"):
        repartition(trainer.parameters, replace(trainer.plan, architecture="ps"))
