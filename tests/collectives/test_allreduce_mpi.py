"""Allreduce made ready: the same sums, bits and bytes by shared memory and by messages, on one machine or several."""

import numpy as np
import pytest
from mpi4py import MPI

from refimpl.collectives import make_schedule
from refimpl.collectives.running.allreduce import open_allreduce
from refimpl.gradients import fold
from refimpl.transport import Communicator
from refimpl.transport.machines import in_blocks, machine_of, machines_of

pytestmark = [pytest.mark.mpi, pytest.mark.ranks(1, 3, 4)]
SETTINGS = [("direct", None), ("direct", 2), ("hierarchical", None), ("hierarchical", 2), ("hierarchical", 3),
            ("binary-blocks", 2)]


@pytest.mark.parametrize("algorithm, each", SETTINGS)
@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("leaves_each", [1, 3])
def test_bits_and_bytes(algorithm, each, shared, leaves_each):
    comm = MPI.COMM_WORLD
    communicator = Communicator.of(comm) if each is None else Communicator(comm, in_blocks(comm.size, each))
    leaves = comm.size * leaves_each
    if algorithm == "binary-blocks" and leaves_each > 1:
        return  # canonical for one node on each rank
    machines = communicator.machines if algorithm == "hierarchical" else None
    schedule = make_schedule(algorithm, communicator.size, leaves, machines=machines)
    elements = 1001

    def value(step, rank, slot):
        return np.random.default_rng((step, rank, slot)).standard_normal(elements).astype(np.float32)

    def attribute(start, stop):
        return {"v": stop - start}

    allreduce = open_allreduce(schedule, communicator, elements, np.empty(0, np.float32), "t", attribute, shared)
    for step in range(3):
        communicator.ledger.clear()
        for slot, array in enumerate(allreduce.slots):
            array[...] = value(step, communicator.rank, slot)
        parts = [(node, value(step, r, s)) for r, nodes in enumerate(schedule.inputs) for s, node in enumerate(nodes)]
        expected = fold(sorted(parts, key=lambda part: part[0].first_leaf), np.add)
        assert allreduce().tobytes() == expected.tobytes()
        sent = communicator.ledger.total("sent", variable="v")
        assert sent == 4 * schedule.elements_sent(elements)[communicator.rank]
        communicator.agree()  # everyone has read the sum: slots may be written again


def test_machines():
    assert in_blocks(5, 2) == ((0, 1), (2, 3), (4,))
    assert machines_of([7, 3, 7, 3]) == ((0, 2), (1, 3))
    assert machine_of(((0, 2), (1, 3)), 3) == 1
    communicator = Communicator.of(MPI.COMM_WORLD)
    assert sorted(r for ranks in communicator.machines for r in ranks) == list(range(communicator.size))
    assert communicator.rank in communicator.machine
