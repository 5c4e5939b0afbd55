"""Hot rows: whatever H, and however they travel, the same answer, and every byte as predicted."""

from functools import partial

import numpy as np
import pytest
from mpi4py import MPI
from test_bytes_mpi import check
from toys import answer, answer_of, make_trainer, whole_state

from refimpl.plan import ledger_keys
from refimpl.plan.partitions.balance import owned_bytes
from refimpl.plan.make import with_partitions
from refimpl.strategies.hot_rows import HotRowsExchange, with_hot_rows
from refimpl.training import trainer as trainer_module
from refimpl.training.planning.partition_trials import repartition
from refimpl.transport import Communicator
from refimpl.transport.machines import in_blocks

pytestmark = [pytest.mark.mpi, pytest.mark.ranks(3, 4)]
CASES = [({"table": 7, "rare": 9}, "as-dense"), ({"table": 1}, "allgather"), ({"table": 50, "rare": 3}, "allgather"),
         ({"rare": 2}, "as-dense")]


@pytest.fixture
def plans(monkeypatch):
    """Return a function that gives the plans of trainers made from now on hot rows."""
    settle = trainer_module.with_buckets_for

    def with_hot(hot, replica, way, plan, variables):
        return settle(way, with_hot_rows(plan, hot, replica), variables)

    return lambda hot, replica: monkeypatch.setattr(trainer_module, "with_buckets_for", partial(with_hot, hot, replica))


@pytest.mark.parametrize("hot,replica,optimizer,options", [
    (*CASES[0], "adam", dict(architecture="ps")), (*CASES[0], "adagrad", dict(overlap=True)),
    (*CASES[1], "adam", dict(overlap=True)), (*CASES[2], "sgd", dict(scheme="interleaved", overlap=False)),
    (*CASES[3], "momentum", dict(partitions=5, local_aggregation=False))])
@pytest.mark.thorough("hot1", "hot2")
def test_one_answer(comm, plans, hot, replica, optimizer, options):
    expected = answer("toy", optimizer, MPI.COMM_SELF)
    plans(hot, replica)
    communicator = Communicator(comm, machines=in_blocks(comm.size, 2)) if comm.size % 2 == 0 else comm
    trainer = make_trainer("toy", optimizer, communicator, **options)
    assert any(isinstance(e, HotRowsExchange) for e in trainer.parameters.exchanges)
    assert answer_of(trainer, 3) == expected


@pytest.mark.ranks(3)
@pytest.mark.parametrize("microbatches", [1, 6])
def test_any_number_of_microbatches(comm, plans, microbatches):
    expected = answer("toy", "adagrad", MPI.COMM_SELF, microbatches=microbatches)
    plans({"table": 20, "rare": 4}, "as-dense")
    assert answer_of(make_trainer("toy", "adagrad", comm, microbatches=microbatches), 3) == expected


@pytest.mark.parametrize("hot,replica,options,microbatches", [
    (*CASES[0], dict(overlap=False), 8), (*CASES[1], dict(partitions=5, scheme="interleaved", allreduce="direct"), 3),
    (*CASES[2], dict(overlap=True), 8), (*CASES[3], dict(architecture="ps", local_aggregation=False), 3),
    (*CASES[0], dict(overlap=True), 3), (*CASES[1], dict(overlap=True, local_aggregation=False), 8)])
@pytest.mark.thorough("hot1", "hot2")
def test_bytes_are_as_predicted(comm, plans, hot, replica, options, microbatches):
    plans(hot, replica)
    trainer, found, _ = check(comm, "toy", microbatches, options, in_blocks(comm.size, 2 - comm.size % 2))
    assert set(found) <= set(ledger_keys(trainer.plan, trainer.model.variables))


@pytest.mark.ranks(3)
def test_partitions_of_the_rest_can_change(comm, plans):
    expected = answer("toy", "adam", MPI.COMM_SELF)
    plans({"table": 13}, "as-dense")
    trainer = make_trainer("toy", "adam", comm, partitions=comm.size)
    trainer.train_step()
    state, variables = whole_state(trainer), trainer.model.variables
    plan = with_partitions(trainer.plan, variables, 5)
    assert plan.strategies["table"].hot == 13 and repartition(trainer.parameters, plan)
    assert all(np.array_equal(state[key], array) for key, array in whole_state(trainer).items())
    held = sum(array.nbytes for exchange in trainer.parameters.exchanges for shard in exchange.shards.values()
               if shard.variable.sparse for array in (shard.values, *shard.state.values()))
    assert held == owned_bytes(plan, variables, 3)[comm.rank]
    assert answer_of(trainer, 2) == expected


@pytest.mark.ranks(3)
def test_the_answer_would_show_a_row_that_is_counted_twice(comm, plans, monkeypatch):
    """Hot rows that go to the server too."""
    plans({"table": 7}, "as-dense")
    expected = answer("toy", "sgd", MPI.COMM_SELF)
    take = HotRowsExchange._rest

    def shifted(self, variable, gradient):
        part = take(self, variable, gradient)
        return type(part)(part.ids, part.rows * 2)

    monkeypatch.setattr(HotRowsExchange, "_rest", shifted)
    assert answer_of(make_trainer("toy", "sgd", comm), 3) != expected


@pytest.mark.ranks(3)
def test_so_many_as_asked_for_or_as_pay(comm):
    expected = answer("lm", "adagrad", MPI.COMM_SELF)
    trainer = make_trainer("lm", "adagrad", comm, hot_rows=20)
    assert {s.hot for s in trainer.plan.strategies.values() if s.sparse} == {20}
    assert answer_of(trainer, 3) == expected
    trainer = make_trainer("lm", "adagrad", comm, hot_rows="auto")
    assert "hot rows of" in trainer.reason
    assert answer_of(trainer, 3) == expected
    trainer = make_trainer("toy", "adam", comm, hot_rows=30)  # one of nine rows has nine
    assert [s.hot for s in trainer.plan.strategies.values() if s.sparse] == [30, 9]
