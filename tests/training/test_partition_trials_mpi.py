"""The partition search inside a training: the same answer, the same walk on all ranks, memory limits kept."""

import json

import pytest
from mpi4py import MPI
from searching import BEST_AT_6
from toys import WORKS, answer, answer_of, make_options, make_trainer, refusal

from refimpl.plan.partitions.balance import owned_bytes
from refimpl.plan.make import with_partitions
from refimpl.strategies.server import ServedRowsExchange
from refimpl.training.planning import partition_trials as trials_module
from refimpl.training.planning.partition_trials import PartitionTrials, repartition
from refimpl.training.session import train
from refimpl.transport import Communicator
from refimpl.transport.machines import in_blocks

pytestmark = [pytest.mark.mpi, pytest.mark.ranks(1, 3)]
SEARCH = dict(architecture="hybrid", search_partitions=True, search_warmup=1, search_sample=2)


def searched(comm, **changes):
    """Train a toy; tell its search of steps that take as long as a curve says. Return (trainer, trials, what is said).
    """
    trainer = make_trainer("toy", "adam", comm, steps=30, **SEARCH, **changes)
    said = []
    trials = PartitionTrials.open(trainer, said.append)
    comm = trainer.comm.mpi
    while trainer.step < 30 and trials.active:
        trainer.train_step()
        warming = len(trials.seconds) < trainer.options.search_warmup
        # the slowest rank counts, and which that is differs from step to step
        slowest = trainer.step % comm.size == comm.rank
        trials.after_step(1e6 if warming else BEST_AT_6.seconds(trials.trying) * (1.0 if slowest else 0.25))
    assert len(set(comm.allgather(json.dumps(trials.to_json())))) == 1
    assert comm.rank == 0 or not said
    return trainer, trials, said


def test_the_chosen_partitions_are_followed_and_the_answer_is_the_same(comm):
    trainer, trials, said = searched(comm, partitions=4)
    found = trials.to_json()
    assert [s["partitions"] for s in found["samples"]] == [4, 8, 16, 2, 6] and found["chosen"] == 6 and found["finished"]
    assert [s["seconds"] for s in found["samples"]] == [BEST_AT_6.seconds(p) for p in (4, 8, 16, 2, 6)]
    plan = with_partitions(trainer.plan, trainer.model.variables, 6)
    assert trainer.plan == plan
    assert answer_of(trainer) == answer("toy", "adam", MPI.COMM_SELF, steps=trainer.step)
    assert not trials.after_step(1.0) and (comm.rank or "6 from now on (tried 4, 8, 16, 2, 6;" in said[-1])


@pytest.mark.mpi(min_size=2)
@pytest.mark.parametrize("overlap", [False, True])
@pytest.mark.thorough("True")
def test_it_starts_at_the_number_of_machines_and_moves_every_bucket(comm, overlap):
    machines = in_blocks(comm.size, 2) if comm.size % 2 == 0 else ((0,), tuple(range(1, comm.size)))
    trainer, trials, _ = searched(Communicator(comm, machines=machines), overlap=overlap)
    assert trials.to_json()["samples"][0]["partitions"] == len(machines)
    assert {len(s.owners) for s in trainer.plan.strategies.values() if s.sparse} == {6}
    assert answer_of(trainer) == answer("toy", "adam", MPI.COMM_SELF, steps=trainer.step)


def test_a_whole_training_writes_what_it_found(comm, tmp_path):
    path, (model, data, _) = comm.bcast(tmp_path), WORKS["lm"]
    plain = train(model(), data(), options=make_options("lm", "adagrad", steps=20), comm=comm)
    result = train(model(), data(), comm=comm, output=path / "run",
                   options=make_options("lm", "adagrad", steps=20, **{**SEARCH, "search_sample": 1}))
    assert (result.parameters_sha256, result.state_sha256) == (plain.parameters_sha256, plain.state_sha256)
    assert plain.partition_search is None and len(result.partition_search["samples"]) >= 3
    moved = {"search", "repartition"} if comm.size > 1 else set()
    assert set(result.bytes) == set(plain.bytes) | moved and all(result.bytes[phase] > 0 for phase in moved)
    if comm.rank == 0:
        written = json.loads((path / "run" / "result.json").read_text())["partition_search"]
        plan = json.loads((path / "run" / "plan.json").read_text())
        assert written == result.partition_search
        assert {len(p["owners"]) for p in plan["placements"] if p["sparse"]} == {written["chosen"]}


def test_a_training_that_ends_first_says_so(comm):
    model, data, _ = WORKS["toy"]
    result = train(model(), data(), comm=comm, options=make_options("toy", "sgd", steps=4, **SEARCH))
    found = result.partition_search
    assert not found["finished"] and [s["partitions"] for s in found["samples"]] == [1] and found["chosen"] == 2


@pytest.mark.parametrize("options", [{**SEARCH, "search_sample": 1}, dict(architecture="auto")])
def test_what_fails_where_it_is_announced_stops_all_ranks(comm, options):
    def announce(text):
        raise BrokenPipeError("nobody listens")

    model, data, _ = WORKS["toy"]
    options = make_options("toy", "sgd", steps=9, **options)
    assert "nobody listens" in refusal(comm, lambda: train(model(), data(), options=options, comm=comm,
                                                           announce=announce))


def test_a_memory_limit_raises_the_lower_limit(comm):
    trainer = make_trainer("toy", "adam", comm, architecture="hybrid", partitions=comm.size)
    plan, variables = trainer.plan, trainer.model.variables
    whole = int(owned_bytes(plan, variables, 3).sum())
    limit = int(owned_bytes(with_partitions(plan, variables, comm.size), variables, 3).max())
    trainer, trials, _ = searched(comm, partitions=1, memory_limit=limit)
    held = owned_bytes(trainer.plan, variables, 3)
    shards = [trainer.parameters.exchange_of[v.name].shards[v.name] for v in variables if v.sparse]
    mine = sum(array.nbytes for shard in shards for array in (shard.values, *shard.state.values()))
    assert mine == held[comm.rank] and held.max() <= limit and held.sum() == whole
    if comm.size > 1:
        assert trials.search.too_large[0] == 1 and trials.search.least > 1


def test_a_rank_without_memory_raises_the_lower_limit(comm, monkeypatch):
    def no_memory(exchange, plan):
        raise MemoryError

    def with_eight_too_many(parameters, plan):
        with monkeypatch.context() as patch:
            if comm.rank == comm.size - 1 and len(plan.placements[0].strategy.owners) == 8:
                patch.setattr(ServedRowsExchange, "tables_for", no_memory)
            return repartition(parameters, plan)

    monkeypatch.setattr(trials_module, "repartition", with_eight_too_many)
    trainer = make_trainer("toy", "adam", comm, **{**SEARCH, "partitions": 16, "steps": 60})
    trials = PartitionTrials.open(trainer, None)
    while trials.active:
        trainer.train_step()
        trials.after_step(BEST_AT_6.seconds(trials.trying))
    found = trials.to_json()
    assert found["too_large"] == [8] and found["least"] == 9 and found["chosen"] == 16
    assert sorted(s["partitions"] for s in found["samples"]) == [16, 23, 32]
