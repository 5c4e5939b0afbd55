"""One answer, to the bit, of modules of flax and equinox, on any number of ranks."""

from functools import cache

import pytest
from mpi4py import MPI
from jax_modules import INSTALLED, data_of, model_of

from refimpl.training.options import Options
from refimpl.training.session import train

pytestmark = pytest.mark.mpi


def answer(kind, comm, **changes):
    """Train over an epoch of three steps and into the next; return all that must be the same."""
    options = Options(steps=4, optimizer="adamw", learning_rate=0.05, clip_norm=0.5, **changes)
    result = train(model_of(kind), data_of(), data_of(shuffle=False), options=options, comm=comm)
    return result.loss, result.evaluation, result.parameters_sha256, result.state_sha256


@cache
def one_rank(kind):
    """Return the answer of one rank, which rank 0 computes."""
    world = MPI.COMM_WORLD
    return world.bcast(answer(kind, MPI.COMM_SELF) if world.rank == 0 else None)


@pytest.mark.ranks(3)
@pytest.mark.thorough("nnx")
@pytest.mark.parametrize("kind", INSTALLED)
def test_three_ranks_give_the_answer_of_one(comm, kind):
    assert answer(kind, comm, architecture="ps", partitions=3) == one_rank(kind)


@pytest.mark.thorough
@pytest.mark.ranks(4)
@pytest.mark.parametrize("kind", INSTALLED)
def test_four_ranks_give_the_answer_of_one(comm, kind):
    assert answer(kind, comm) == one_rank(kind)
