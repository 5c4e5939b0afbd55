"""One answer, to the bit (docs/design.md, I1), whoever aggregates where: machines of every shape, with and without."""

from itertools import product

import pytest
from mpi4py import MPI
from test_bytes_mpi import MACHINES
from toys import answer

from refimpl.transport import Communicator

pytestmark = [pytest.mark.mpi, pytest.mark.ranks(3, 4)]

SETTINGS = [dict(architecture="ps", partitions=1), dict(architecture="ps", partitions=11),
         dict(architecture="hybrid", partitions=5, scheme="interleaved", allreduce="hierarchical"),
         dict(architecture="hybrid", allreduce="direct", overlap=False)]
WORKS = [("toy", "adam", 8), ("toy", "adam", 7), ("toy", "momentum", 3), ("lm", "adagrad", 8)]


@pytest.fixture(scope="module")
def one_rank(shared):
    """(work, optimizer, microbatches) -> the answer of one rank."""
    return shared(WORKS, lambda key: answer(key[0], key[1], MPI.COMM_SELF, microbatches=key[2]))


def wrong_runs(comm, one_rank, works, machines):
    """Return the runs on these machines whose answer is not one rank's."""
    runs = [*product(works, SETTINGS, (True,)), *product(works[1:2], SETTINGS, (False,))]
    return [(key, settings, local) for key, settings, local in runs
            if answer(key[0], key[1], Communicator(comm, machines), microbatches=key[2], local_aggregation=local,
                      **settings)
            != one_rank[key]]


@pytest.mark.parametrize("machines", MACHINES)
@pytest.mark.thorough("pairs")
@pytest.mark.ranks(4)
def test_every_machine_shape(comm, one_rank, machines):
    assert wrong_runs(comm, one_rank, WORKS, MACHINES[machines](comm.size)) == []


@pytest.mark.mpi(min_size=8)
@pytest.mark.parametrize("machines", MACHINES)
def test_every_machine_shape_of_eight_ranks(comm, one_rank, machines):
    assert wrong_runs(comm, one_rank, WORKS[1::2], MACHINES[machines](comm.size)) == []
