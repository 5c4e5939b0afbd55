"""Exchanges beside the computation: the same bits and bytes as in turn, and every failure ends all ranks."""

import pytest
from mpi4py import MPI
from toys import answer

from refimpl.collectives.machines import in_blocks
from refimpl.collectives.wire import Wire

ROADS = {
    "allreduce": dict(architecture="allreduce"),
    "as-dense": dict(architecture="allreduce", sparse_as_dense=True),
    "ps": dict(architecture="ps"),
    "ps, one partition": dict(architecture="ps", partitions=1, local_aggregation=False),
    "hybrid": dict(architecture="hybrid"),
    "hybrid, five partitions": dict(architecture="hybrid", partitions=5, scheme="interleaved", local_aggregation=False),
}

pytestmark = pytest.mark.mpi


def machines_of(comm):
    """Return pretended machines: each rank one of its own; two of each half."""
    return [in_blocks(comm.size, 1), in_blocks(comm.size, -(-comm.size // 2))]


@pytest.fixture(scope="module")
def one_rank():
    """(work, microbatches) -> the answer of one rank, in turn."""
    wanted = [("toy", 7), ("toy", 2), ("lm", 8), ("cnn", 8)]
    return {key: answer(key[0], "adam", MPI.COMM_SELF, microbatches=key[1], overlap=False) for key in wanted}


@pytest.fixture(params=["few buckets", "a bucket each"])
def buckets(request, monkeypatch):
    if request.param != "few buckets":
        monkeypatch.setattr("refimpl.plan.buckets.BUCKET", 1)


CASES = [*((work, v, road) for work, v in (("toy", 7), ("lm", 8)) for road in ROADS), ("toy", 2, "hybrid"), ("toy", 2, "ps"),
         ("cnn", 8, "allreduce"), ("cnn", 8, "ps")]


@pytest.mark.parametrize("work, microbatches, road", CASES)
def test_the_same_bits(comm, one_rank, buckets, work, microbatches, road):
    for machines in machines_of(comm):
        found = answer(work, "adam", Wire(comm, machines=machines), microbatches=microbatches, overlap=True, **ROADS[road])
        assert found == one_rank[work, microbatches]
