"""One answer, to the bit (docs/design.md, I1): any number of ranks, architecture, partitioning and canonical schedule.

The reference is the trainer on one rank, which test_trainer.py holds to the plain definition.
"""

import time
from itertools import product

import pytest
from mpi4py import MPI
from toys import WORKS, answer, make_options, make_trainer, refusal

from refimpl.collectives import make_schedule, prove
from refimpl.training.session import train

SETTINGS = {
    "allreduce": dict(architecture="allreduce"),
    "as-dense": dict(architecture="allreduce", sparse_as_dense=True),
    "ps": dict(architecture="ps"),
    "hybrid": dict(architecture="hybrid"),
    "reduce-scatter": dict(architecture="hybrid", shard_optimizer=True),
}
OPTIMIZERS = {"toy": ("sgd", "momentum", "adagrad", "adam"), "lm": ("adagrad", "adam"),
              "cnn": ("adagrad", "adam", "momentum"), "nmt": ("sgd", "adam"), "vgg": ("momentum",)}
CASES = [(work, optimizer) for work, optimizers in OPTIMIZERS.items() for optimizer in optimizers]
PARTITIONS = list(product(range(1, 8), ("contiguous", "interleaved")))

pytestmark = pytest.mark.mpi


@pytest.fixture(scope="module")
def one_rank():
    """(work, optimizer, microbatches) -> the answer of one rank; each rank of the job computes some of them."""
    world = MPI.COMM_WORLD
    wanted = [(*case, 8) for case in CASES] + [("toy", "adam", v) for v in (1, 2, 3, 5, 6, 7)]
    mine = {key: answer(key[0], key[1], MPI.COMM_SELF, microbatches=key[2]) for key in wanted[world.rank::world.size]}
    return {key: found for part in world.allgather(mine) for key, found in part.items()}


def first_ranks(count):
    """Return a communicator of the first ranks, None on the others."""
    world = MPI.COMM_WORLD
    comm = world.Split(0 if world.rank < count else MPI.UNDEFINED)
    return None if comm == MPI.COMM_NULL else comm


def answers(comm, world, runs):
    """Return what runs [(work, optimizer, changes)] give on ``comm``, to every rank of the world."""
    found = [answer(work, optimizer, comm, **changes) for work, optimizer, changes in runs] if comm else None
    if comm:
        everyone = comm.allgather(found)
        assert all(other == found for other in everyone)  # metrics and hashes are the same on every rank
    done = world.Ibarrier()
    while not done.Test():  # a blocking call would spin, and there are more ranks than cores
        time.sleep(0.01)
    return world.bcast(found)


def compare(runs, found, one_rank):
    wrong = [run for run, result in zip(runs, found, strict=True)
             if result != one_rank[run[0], run[1], run[2].get("microbatches", 8)]]
    assert not wrong


@pytest.mark.parametrize("settings", SETTINGS)
@pytest.mark.thorough("allreduce", "as-dense", "ps", "hybrid")  # the other: test_reduce_scatter_mpi.py
def test_every_architecture_at_this_size(comm, one_rank, settings):
    runs = [(work, optimizer, SETTINGS[settings]) for work, optimizer in CASES
            if work not in ("cnn", "vgg") or settings in ("allreduce", "ps", "reduce-scatter")]
    compare(runs, answers(comm, comm, runs), one_rank)


def test_any_number_of_microbatches(comm, one_rank):
    """Fewer microbatches than ranks, no power of two, ranks whose microbatches are several tree nodes."""
    runs = [("toy", "adam", {**settings, "microbatches": v})
            for v in (1, 2, 3, 5, 6, 7) for name, settings in SETTINGS.items() if name != "reduce-scatter"]
    compare(runs, answers(comm, comm, runs), one_rank)


def test_partitions_at_this_size(comm, one_rank):
    runs = [("toy", "momentum", dict(architecture="ps", partitions=p, scheme=s)) for p, s in PARTITIONS]
    compare(runs, answers(comm, comm, runs), one_rank)


@pytest.mark.mpi(min_size=8)
@pytest.mark.parametrize("ranks", [3, 5, 8])
def test_every_architecture_and_partitioning(comm, one_rank, ranks):
    small = first_ranks(ranks)
    runs = [(work, optimizer, SETTINGS[settings]) for work, optimizer in CASES for settings in SETTINGS
            if work not in ("cnn", "vgg") or settings in ("allreduce", "ps", "reduce-scatter")]
    runs += [("lm", optimizer, dict(architecture=architecture, partitions=p, scheme=s, allreduce="direct"))
             for p, s in PARTITIONS for optimizer, architecture in (("adam", "hybrid"), ("adagrad", "ps"))]
    runs += [("toy", "adam", {**SETTINGS[settings], "microbatches": v}) for v in (1, 2, 3, 5, 6, 7)
             for settings in ("hybrid", "ps", "reduce-scatter")]
    compare(runs, answers(small, comm, runs), one_rank)
    if small:
        small.Free()


def test_the_comparison_sees_another_seed(comm, one_rank):
    runs = [("toy", "adam", {"seed": 1})]
    with pytest.raises(AssertionError):
        compare(runs, answers(comm, comm, runs), one_rank)


def test_ring_is_deterministic_and_says_that_it_is_not_canonical(comm, one_rank):
    results = [answer("toy", "sgd", comm, allreduce="ring") for _ in range(2)]
    assert results[0] == results[1]
    canonical = prove(make_schedule("ring", comm.size, 8)).canonical
    assert canonical == (comm.size <= 2)
    if canonical:
        assert results[0] == one_rank["toy", "sgd", 8]


@pytest.mark.mpi(min_size=4)
@pytest.mark.parametrize("work", ["toy", "lm"])
def test_four_ranks_of_hybrid_go_on_as_three_of_ps(comm, tmp_path, work):
    """A checkpoint in the middle of an epoch, carried state in it; then over the epoch's boundary."""
    model, data, _ = WORKS[work]
    path = comm.bcast(tmp_path)
    whole = train(model(), data(), data(), options=make_options(work, "adam", steps=5), comm=MPI.COMM_SELF)
    train(model(), data(), options=make_options(work, "adam", steps=3), comm=comm, output=path / "run")
    three = first_ranks(3)
    if three:
        settings = dict(architecture="ps", partitions=5, scheme="interleaved")
        resumed = train(model(), data(), data(), comm=three, output=path / "run", resume=path / "run",
                        options=make_options(work, "adam", steps=5, **settings))
        assert resumed.parameters_sha256 == whole.parameters_sha256 and resumed.state_sha256 == whole.state_sha256
        assert resumed.loss == whole.loss and resumed.evaluation == whole.evaluation
        three.Free()
    comm.Barrier()


def test_halving_doubling_is_refused_where_it_would_not_be_canonical(comm):
    three_each = dict(microbatches=3 * comm.size, allreduce="halving-doubling")
    assert "--allreduce direct" in refusal(comm, lambda: make_trainer("toy", "sgd", comm, **three_each))
