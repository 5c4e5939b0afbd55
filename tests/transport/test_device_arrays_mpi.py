"""Device arrays on the communicator: they arrive as they are, and are counted as NumPy's are; by every transport."""

import numpy as np
import pytest

from refimpl.collectives import ALGORITHMS, make_schedule, run_local
from refimpl.collectives.choose import by_machine
from refimpl.collectives.running import run
from refimpl.collectives.running.allreduce import open_allreduce
from refimpl.transport import CollectiveError, Communicator, SilentPeer
from refimpl.transport.machines import in_blocks

pytestmark = [pytest.mark.mpi, pytest.mark.ranks(3, 4)]
DTYPES = ("float16", "float32", "float64", "int64", "uint8")


@pytest.fixture(params=["staged", "nccl"])
def communicator(comm, cupy, request):
    communicator = Communicator(comm, machines=in_blocks(comm.size, 2))
    communicator.add_device(0, request.param)
    return communicator


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.thorough("nccl-float16", "staged-int64")
def test_device_and_host_arrays_travel_together(communicator, cupy, dtype):
    """From rank a to rank b go a message of a * 10 + b elements on the host, two on the device; some are empty."""
    def message(source, destination, number):
        count = (source * 10 + destination) % 13
        return (np.arange(count) * 3 + source + 7 * destination + 50 * number).astype(dtype)

    others = [r for r in range(communicator.size) if r != communicator.rank]
    sent = [(r, message(communicator.rank, r, k)) for r in others for k in range(3)]
    came = [(r, np.zeros_like(message(r, communicator.rank, k))) for r in others for k in range(3)]
    place = (lambda array: array, cupy.asarray, cupy.asarray)
    sends = [(r, place[i % 3](array), {"v": array.size}) for i, (r, array) in enumerate(sent)]
    receives = [(r, place[i % 3](array), {"v": array.size}) for i, (r, array) in enumerate(came)]
    communicator.exchange(sends, receives, "test", "rows")
    communicator.settle()
    for i, (source, array, _) in enumerate(receives):
        found = array if i % 3 == 0 else array.get()
        assert np.array_equal(found, message(source, communicator.rank, i % 3))
    assert communicator.ledger.total("sent") == sum(array.nbytes for _, array in sent)
    assert communicator.ledger.total("received") == sum(array.nbytes for _, array in came)


@pytest.mark.parametrize("algorithm", [*ALGORITHMS, "trees:path", "canonical-trees:path", "hierarchical-trees:path-2"])
@pytest.mark.thorough("nccl-direct", "staged-ring", "hierarchical", "nccl-canonical", "halving")  # not for 3 ranks
def test_a_schedule_gives_the_same_bits_and_bytes_on_the_device(communicator, cupy, algorithm):
    if algorithm == "halving-doubling" and communicator.size & (communicator.size - 1):
        pytest.skip(f"{algorithm} is not for {communicator.size} ranks")
    machines = communicator.machines if by_machine(algorithm) else None
    if algorithm.endswith(":path"):
        algorithm += f"-{communicator.size}"
    for each, elements in ((1, 1001), (2, 64), (1, 3)):
        schedule = make_schedule(algorithm, communicator.size, communicator.size * each, machines=machines)
        inputs = [[(np.random.default_rng((r, slot)).standard_normal(elements) * 1000).astype(np.float32)
                   for slot in range(max(1, len(nodes)))] for r, nodes in enumerate(schedule.inputs)]
        mine = [cupy.asarray(array) for array in inputs[communicator.rank]]
        communicator.ledger.clear()
        assert run(schedule, communicator, mine) is mine[0]
        expected = run_local(schedule, inputs)[communicator.rank]
        assert mine[0].get().tobytes() == expected.tobytes()
        assert communicator.ledger.total("sent") == schedule.elements_sent(elements)[communicator.rank] * 4


@pytest.mark.mpi(min_size=2)
def test_a_rank_that_does_not_come_is_named_where_arrays_are_staged(comm, cupy):
    communicator, last = Communicator.of(comm, timeout=0.3), comm.size - 1
    communicator.add_device(0, "staged")
    if comm.rank < last:
        with pytest.raises(SilentPeer, match=rf"rank {comm.rank} has waited 0.3 s for rank {last} in push \(rows\)"):
            communicator.exchange([], [(last, cupy.zeros(4), {"v": 4})], "push", "rows")
    comm.Barrier()


@pytest.mark.parametrize("each", [1, 3])
def test_nccls_own_allreduce_sums_everything_once_and_counts_as_the_ring(communicator, cupy, each):
    """Rank r's input k is 4 ** (r * each + k): base-4 digits of the sum say who was counted how often."""
    schedule, elements = make_schedule("nccl", communicator.size, communicator.size * each), 23
    like = cupy.zeros(0, cupy.float64)
    arguments = schedule, communicator, elements, like, "test", lambda start, stop: {"v": stop - start}
    if communicator.size > 1 and communicator.device_transport.name == "staged":
        with pytest.raises(CollectiveError, match="needs --device cuda and NCCL"):
            open_allreduce(*arguments)
        return
    allreduce = open_allreduce(*arguments)
    leaves = iter(range(communicator.rank * each, (communicator.rank + 1) * each))
    for slot, node in zip(allreduce.slots, schedule.inputs[communicator.rank]):
        slot[...] = float(sum(4 ** next(leaves) for _ in range(1 << node.level)))
    communicator.ledger.clear()
    total = allreduce()
    communicator.settle()
    assert (total.get() == sum(4.0 ** leaf for leaf in range(communicator.size * each))).all()
    ring = make_schedule("ring", communicator.size, communicator.size * each)
    assert communicator.ledger.total("sent") == ring.elements_sent(elements)[communicator.rank] * 8


def test_nccls_own_allreduce_is_refused_on_the_cpu(comm):
    schedule, like = make_schedule("nccl", comm.size, comm.size), np.zeros(0)
    if comm.size > 1:
        with pytest.raises(CollectiveError, match=r"arrays are on the CPU.*say --allreduce ring"):
            open_allreduce(schedule, Communicator.of(comm), 5, like, "test", lambda start, stop: {})


def test_a_communicator_without_a_device_says_what_to_do(comm, cupy):
    communicator = Communicator.of(comm)
    array = cupy.zeros(3)
    with pytest.raises(ValueError, match=r"add_device\(number\) first"):
        communicator.start([], [(0, array, {})], "test", "rows")
