"""The fast trainer against the plain one: every bit of parameters and optimizer state, loss and norm, N = 1 to 5.

The plain answer of one rank is computed once. Plain trainings on all ranks, and all fast ones, must give it.
"""

import time

import pytest
from mpi4py import MPI
from toys import RATES, WORKS, answer, make_options

from refimpl.plain.hybrid import ARCHITECTURES, Hybrid
from refimpl.training.run.whole import sha256_of

pytestmark = pytest.mark.mpi

CASES = {f"{work} {optimizer}": (work, optimizer, {}) for work in WORKS for optimizer in RATES
         if work != "nmt" or optimizer == "adam"}  # one rank's trainer has them all (training/test_trainer.py)
CASES |= {f"toy sums of rows, {optimizer}": ("toy", optimizer, {"average_sparse": False})
          for optimizer in ("sgd", "adam")}
CASES["lm sums of rows"] = "lm", "adam", {"average_sparse": False}
CASES["lm without clipping, with decay"] = "lm", "momentum", {"clip_norm": None, "weight_decay": 0.01}
CASES["toy without clipping and decay"] = "toy", "adam", {"clip_norm": None, "weight_decay": 0.0}
CASES["toy with options"] = "toy", "adam", {"optimizer_options": {"beta1": 0.5, "epsilon": 1e-3}, "seed": 5}
CASES |= {f"toy of {v} microbatches": ("toy", "adam", {"microbatches": v}) for v in (1, 2, 3, 5, 7)}

FEW = [case for case in CASES if CASES[case][0] == "toy" or case in ("lm adagrad", "lm adam", "cnn momentum")]
"""The cases for plain trainings on several ranks, whose optimizers do there what they do on one."""

SETTINGS = {"allreduce": dict(architecture="allreduce"), "ps": dict(architecture="ps"),
         "hybrid": dict(architecture="hybrid"), "as-dense": dict(architecture="allreduce", sparse_as_dense=True),
         "reduce-scatter": dict(architecture="hybrid", shard_optimizer=True)}
STEPS = 3


def plain_answer(comm, work, optimizer, changes, architecture="hybrid"):
    """Train plainly; return what ``toys.answer`` does: loss, norm, hash of parameters, hash of optimizer state."""
    (model, data, _), changes = WORKS[work], dict(changes)
    data = data(changes.pop("microbatches", 8))
    training = Hybrid(model(), data, make_options(work, optimizer, **changes), comm, architecture)
    for _ in range(STEPS):
        training.step()
    arrays = {f"state/{slot}/{name}": training.strategies[name].whole(array)
              for name, state in training.optimizer.state.items() for slot, array in state.items()}
    return training.loss, training.norm, training.sha256(), sha256_of(arrays, "state/")


@pytest.fixture(scope="module")
def plain():
    """Case -> the plain answer of one rank; each rank of the job computes some of them."""
    world = MPI.COMM_WORLD
    mine = {case: plain_answer(MPI.COMM_SELF, *CASES[case]) for case in list(CASES)[world.rank::world.size]}
    return {case: found for part in world.allgather(mine) for case, found in part.items()}


def other_answers(comm, cases, expected, train):
    """Return the cases for which ``train(comm, case)`` does not give the expected answer, on any rank."""
    wrong = [case for case in cases if train(comm, case) != expected[case]]
    return sorted({case for part in comm.allgather(wrong) for case in part})


def some_cases(cases, ranks, ways, way):
    """Every case goes one of the ways, on the next number of ranks the next: all of them all, for N = 1 to 4."""
    ways = list(ways)
    return cases[(ways.index(way) + ranks) % len(ways)::len(ways)]


def fast(settings):
    return lambda comm, case: answer(*CASES[case][:2], comm, STEPS, **{**CASES[case][2], **SETTINGS[settings]})


def plainly(architecture):
    return lambda comm, case: plain_answer(comm, *CASES[case], architecture)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.thorough("hybrid")
def test_plain_on_this_many_ranks(comm, plain, architecture):
    cases = some_cases(FEW, comm.size, ARCHITECTURES, architecture)
    assert other_answers(comm, cases, plain, plainly(architecture)) == []


@pytest.mark.parametrize("settings", SETTINGS)
def test_fast_on_this_many_ranks(comm, plain, settings):
    assert other_answers(comm, some_cases(list(CASES), comm.size, SETTINGS, settings), plain, fast(settings)) == []


@pytest.mark.mpi(min_size=8)
def test_both_on_five_ranks(comm, plain):
    five, wrong = comm.Split(0 if comm.rank < 5 else MPI.UNDEFINED), []
    if five != MPI.COMM_NULL:
        wrong = [other_answers(five, some_cases(list(CASES), 5, SETTINGS, settings), plain, fast(settings))
                 for settings in SETTINGS]
        wrong += [other_answers(five, some_cases(FEW, 5, ARCHITECTURES, architecture), plain, plainly(architecture))
                  for architecture in ARCHITECTURES]
        five.Free()
    done = comm.Ibarrier()
    while not done.Test():  # a blocking call would spin, and there are more ranks than cores
        time.sleep(0.01)
    assert not any(wrong)


def test_the_comparison_sees_another_seed(comm, plain):
    expected = {"toy adam": plain["toy with options"]}
    assert other_answers(comm, ["toy adam"], expected, plainly("hybrid")) == ["toy adam"]
    assert other_answers(comm, ["toy adam"], expected, fast("hybrid")) == ["toy adam"]
