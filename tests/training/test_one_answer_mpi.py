"""One answer, to the bit (docs/design.md, I1): any number of ranks, architecture, partitioning and canonical schedule.

The answer is that of the plain trainer (refimpl.plain.training.hybrid) on one rank: loss, norm, parameters and optimizer state.
"""

from itertools import product

import pytest
from mpi4py import MPI
from toys import RATES, SETTINGS, WORKS, answer, answer_of, make_options, make_trainer, plain_answer, whole_state

from refimpl.collectives import make_schedule, prove
from refimpl.plain.training.hybrid import ARCHITECTURES
from refimpl.server import rounds
from refimpl.training.run.whole import gather_carried, key_of_array
from refimpl.training.session import train
from refimpl.transport import Communicator

CASES = {f"{work} {optimizer}": (work, optimizer, {}) for work in WORKS for optimizer in RATES
         if work == "toy" or optimizer not in ("nesterov", "adamw")}
CASES |= {f"toy sums of rows, {optimizer}": ("toy", optimizer, {"average_sparse": False})
          for optimizer in ("sgd", "adam")}
CASES["lm sums of rows"] = "lm", "adam", {"average_sparse": False}
CASES["lm without clipping, with decay"] = "lm", "momentum", {"clip_norm": None, "weight_decay": 0.01}
CASES["toy without clipping and decay"] = "toy", "adam", {"clip_norm": None, "weight_decay": 0.0}
CASES["toy with options"] = "toy", "adam", {"optimizer_options": {"beta1": 0.5, "epsilon": 1e-3}, "seed": 5}
OF_MICROBATCHES = {f"toy of {v} microbatches": ("toy", "adam", {"microbatches": v}) for v in (1, 2, 3, 5, 6, 7, 13)}
CASES |= OF_MICROBATCHES
PLAINLY = [case for case in CASES if CASES[case][0] == "toy" or case in ("lm adagrad", "lm adam", "cnn momentum")]
"""The cases for plain trainings on several ranks, whose optimizers do there what they do on one."""
PARTITIONS = list(product(range(1, 8), ("contiguous", "interleaved")))

pytestmark = pytest.mark.mpi


@pytest.fixture(scope="module")
def plain(shared):
    """Case -> the plain answer of one rank."""
    return shared(CASES, lambda case: plain_answer(MPI.COMM_SELF, *CASES[case]))


def some_cases(cases, ranks, ways, way):
    """Every case goes one of the ways, on the next number of ranks the next: all of them all, for N = 1 to 4."""
    return list(cases)[(list(ways).index(way) + ranks) % len(ways)::len(ways)]


def fast(comm, case, **changes):
    work, optimizer, own = CASES[case]
    return answer(work, optimizer, comm, **{**own, **changes})


def plainly(comm, case, architecture):
    return plain_answer(comm, *CASES[case], architecture)


def wrong(comm, plain, runs):
    """Return the runs [(case, trained by, changes)] that do not give the plain answer, on any rank."""
    found = [(case, changes) for case, trained, changes in runs if trained(comm, case, **changes) != plain[case]]
    return [one for part in comm.allgather(found) for one in part]


@pytest.mark.parametrize("settings", SETTINGS)
def test_every_architecture(comm, plain, settings):
    runs = [(case, fast, SETTINGS[settings]) for case in some_cases(CASES, comm.size, SETTINGS, settings)]
    assert wrong(comm, plain, runs) == []


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.thorough("hybrid")
def test_the_plain_trainer(comm, plain, architecture):
    cases = some_cases(PLAINLY, comm.size, ARCHITECTURES, architecture)
    assert wrong(comm, plain, [(case, plainly, {"architecture": architecture}) for case in cases]) == []


@pytest.mark.thorough
def test_any_number_of_microbatches(comm, plain):
    """Fewer microbatches than ranks, no power of two, ranks whose microbatches are several tree nodes."""
    runs = [(case, fast, SETTINGS[settings]) for case in OF_MICROBATCHES for settings in ("allreduce", "ps", "hybrid")]
    assert wrong(comm, plain, runs) == []


@pytest.mark.parametrize("round_bytes", [0, 200, rounds.ROUND])
def test_partitions(comm, plain, monkeypatch, round_bytes):
    """Each in a round of its own; several, more of one variable's than of another's; all in one."""
    monkeypatch.setattr(rounds, "ROUND", round_bytes)
    runs = [("toy momentum", fast, dict(architecture="ps", partitions=p, scheme=s)) for p, s in PARTITIONS[::3]]
    assert wrong(comm, plain, runs) == []


@pytest.mark.mpi(min_size=8)
@pytest.mark.parametrize("ranks", [3, 5, 8])
def test_every_architecture_and_partitioning(comm, plain, ranks):
    everyone, found = Communicator.of(comm), []
    if small := everyone.first(ranks):
        runs = [(case, fast, SETTINGS[settings]) for case in CASES for settings in SETTINGS
                if CASES[case][0] not in ("cnn", "vgg") or settings in ("allreduce", "ps", "reduce-scatter")]
        runs += [(f"lm {optimizer}", fast, dict(architecture=architecture, partitions=p, scheme=s, allreduce="direct"))
                 for p, s in PARTITIONS for optimizer, architecture in (("adam", "hybrid"), ("adagrad", "ps"))]
        runs += [(case, plainly, {"architecture": architecture}) for architecture in ARCHITECTURES
                 for case in some_cases(PLAINLY, ranks, ARCHITECTURES, architecture)]
        found = wrong(small.mpi, plain, runs)
        small.free()
    everyone.meet()  # a blocking call would spin, and there are more ranks than cores
    assert found == []


def test_the_comparison_sees_another_seed(comm, plain):
    runs = [("toy adam", fast, {"seed": 1}), ("toy with options", plainly, {"architecture": "hybrid"})]
    assert [case for case, _ in wrong(comm, {**plain, "toy with options": plain["toy adam"]}, runs)] == [
        "toy adam", "toy with options"] * comm.size


def test_ring_is_deterministic_and_says_that_it_is_not_canonical(comm, plain):
    results = [answer("toy", "sgd", comm, allreduce="ring") for _ in range(2)]
    assert results[0] == results[1]
    canonical = prove(make_schedule("ring", comm.size, 8)).canonical
    assert canonical == (comm.size <= 2)
    if canonical:
        assert results[0] == plain["toy sgd"]


CHAIN = [(1, SETTINGS["reduce-scatter"]), (3, SETTINGS["reduce-scatter"]), (2, dict(hot_rows=13, partitions=3)),
         (3, dict(architecture="ps", partitions=5, scheme="contiguous")), (3, dict(hot_rows=4, overlap=True)),
         (2, SETTINGS["as-dense"]), (3, dict(architecture="allreduce", shard_optimizer=True)), (1, SETTINGS["hybrid"])]
"""Ranks, and how they train."""


@pytest.mark.mpi(min_size=3)
@pytest.mark.parametrize("work", ["toy", "lm"])
def test_a_checkpoint_goes_on_on_other_ranks_in_another_way(comm, tmp_path, work):
    """A step in each, over the boundaries of epochs and in their middle, where state is carried."""
    (model, data, _), path, everyone = WORKS[work], comm.bcast(tmp_path) / "run", Communicator.of(comm)
    steps = len(CHAIN)
    whole = train(model(), data(), data(), options=make_options(work, "adam", steps=steps), comm=MPI.COMM_SELF)
    for step, (count, how) in enumerate(CHAIN, 1):
        if some := everyone.first(count):
            found = train(model(), data(), data() if step == steps else None, comm=some, output=path,
                          resume=path if step > 1 else None, options=make_options(work, "adam", steps=step, **how))
            some.free()
        everyone.meet()
    if comm.rank == 0:
        for name in ("parameters_sha256", "state_sha256", "loss", "evaluation"):
            assert getattr(found, name) == getattr(whole, name)


@pytest.mark.mpi(min_size=2)
@pytest.mark.parametrize("settings", ["hybrid", "reduce-scatter"])
def test_fewer_ranks_go_on_from_a_state_in_memory(comm, plain, settings):
    """After one step, in the middle of an epoch, carried state in it; with no file between."""
    ranks = Communicator.of(comm)
    before = make_trainer("toy", "adam", ranks, **SETTINGS[settings])
    before.train_step()
    state = {key_of_array(*key): array for key, array in whole_state(before).items()}
    state |= comm.bcast(gather_carried(ranks, before.carried))
    if fewer := ranks.first(comm.size - 1):
        after = make_trainer("toy", "adam", fewer, **SETTINGS[settings])
        after.restore(before.step, state)
        assert answer_of(after, 2) == plain["toy adam"]
        fewer.free()
    ranks.meet()
