"""Device arrays on the wire: they arrive as they are, and are counted as NumPy arrays are; by every transport."""

import numpy as np
import pytest

from refimpl.collectives import ALGORITHMS, CollectiveError, Wire, make_schedule, run, run_local
from refimpl.collectives.all_to_all import ALL_TO_ALLS, all_to_all
from refimpl.collectives.allgatherv import ALLGATHERVS, allgatherv
from refimpl.collectives.allreduce import open_allreduce
from refimpl.collectives.machines import in_blocks
from refimpl.collectives.waiting import SilentPeer

pytestmark = pytest.mark.mpi
DTYPES = ("float16", "float32", "float64", "int64", "uint8")


@pytest.fixture(params=["staged", "nccl"])
def wire(comm, cupy, request):
    wire = Wire(comm, machines=in_blocks(comm.size, 2))
    wire.add_device(0, request.param)
    return wire


@pytest.mark.parametrize("dtype", DTYPES)
def test_device_and_host_arrays_travel_together(wire, cupy, dtype):
    """From rank a to rank b go a message of a * 10 + b elements on the host, two on the device; some are empty."""
    def message(source, destination, number):
        count = (source * 10 + destination) % 13
        return (np.arange(count) * 3 + source + 7 * destination + 50 * number).astype(dtype)

    others = [r for r in range(wire.size) if r != wire.rank]
    sent = [(r, message(wire.rank, r, k)) for r in others for k in range(3)]
    came = [(r, np.zeros_like(message(r, wire.rank, k))) for r in others for k in range(3)]
    place = (lambda array: array, cupy.asarray, cupy.asarray)
    sends = [(r, place[i % 3](array), {"v": array.size}) for i, (r, array) in enumerate(sent)]
    receives = [(r, place[i % 3](array), {"v": array.size}) for i, (r, array) in enumerate(came)]
    wire.exchange(sends, receives, "test", "rows")
    wire.settle()
    for i, (source, array, _) in enumerate(receives):
        found = array if i % 3 == 0 else array.get()
        assert np.array_equal(found, message(source, wire.rank, i % 3))
    assert wire.ledger.total("sent") == sum(array.nbytes for _, array in sent)
    assert wire.ledger.total("received") == sum(array.nbytes for _, array in came)


@pytest.mark.parametrize("algorithm", [name for name in ALGORITHMS])
def test_a_schedule_gives_the_same_bits_and_bytes_on_the_device(wire, cupy, algorithm):
    if algorithm == "halving-doubling" and wire.size & (wire.size - 1):
        pytest.skip(f"{algorithm} is not for {wire.size} ranks")
    machines = wire.machines if algorithm == "hierarchical" else None
    for each, elements in ((1, 1001), (2, 64), (1, 3)):
        schedule = make_schedule(algorithm, wire.size, wire.size * each, machines=machines)
        inputs = [[(np.random.default_rng((r, slot)).standard_normal(elements) * 1000).astype(np.float32)
                   for slot in range(max(1, len(nodes)))] for r, nodes in enumerate(schedule.inputs)]
        mine = [cupy.asarray(array) for array in inputs[wire.rank]]
        wire.ledger.clear()
        assert run(schedule, wire, mine) is mine[0]
        expected = run_local(schedule, inputs)[wire.rank]
        assert mine[0].get().tobytes() == expected.tobytes()
        assert wire.ledger.total("sent") == schedule.elements_sent(elements)[wire.rank] * 4


@pytest.mark.parametrize("kind, algorithm", [*(("allgatherv", name) for name in ALLGATHERVS),
                                             *(("all-to-all", name) for name in ALL_TO_ALLS)])
def test_chunks_of_unlike_length_are_moved_on_the_device(wire, cupy, kind, algorithm):
    """Element i of the vector is i where it has arrived; some chunks are empty."""
    counts = np.arange(wire.size**2).reshape(wire.size, wire.size) * 5 % 7
    schedule = allgatherv(counts[0], algorithm) if kind == "allgatherv" else all_to_all(counts, algorithm)
    bounds = schedule.bounds(sum(schedule.sizes))
    vector = np.full(bounds[-1], -1, np.int64)
    wanted = vector.copy()
    for chunk, (start, stop) in enumerate(zip(bounds, bounds[1:])):
        if schedule.owners[chunk] == wire.rank:
            vector[start:stop] = np.arange(start, stop)
        if schedule.owners[chunk] == wire.rank or schedule.ends_with(wire.rank, chunk):
            wanted[start:stop] = np.arange(start, stop)
    moved = run(schedule, wire, [cupy.asarray(vector)])
    assert np.array_equal(moved.get(), wanted)
    assert wire.ledger.total("sent") == schedule.elements_sent(bounds[-1])[wire.rank] * 8


@pytest.mark.mpi(min_size=2)
def test_a_rank_that_does_not_come_is_named_where_arrays_are_staged(comm, cupy):
    wire, last = Wire(comm, patience=0.3), comm.size - 1
    wire.add_device(0, "staged")
    if comm.rank < last:
        with pytest.raises(SilentPeer, match=rf"rank {comm.rank} has waited 0.3 s for rank {last} in push \(rows\)"):
            wire.exchange([], [(last, cupy.zeros(4), {"v": 4})], "push", "rows")
    comm.Barrier()


@pytest.mark.parametrize("each", [1, 3])
def test_nccls_own_allreduce_sums_everything_once_and_counts_as_the_ring(wire, cupy, each):
    """Rank r's input k is 4 ** (r * each + k): base-4 digits of the sum say who was counted how often."""
    schedule, elements = make_schedule("nccl", wire.size, wire.size * each), 23
    arguments = schedule, wire, elements, cupy.zeros(0, cupy.float64), "test", lambda start, stop: {"v": stop - start}
    if wire.size > 1 and wire.transport.name == "staged":
        with pytest.raises(CollectiveError, match="needs --device cuda and NCCL"):
            open_allreduce(*arguments)
        return
    allreduce = open_allreduce(*arguments)
    leaves = iter(range(wire.rank * each, (wire.rank + 1) * each))
    for slot, node in zip(allreduce.slots, schedule.inputs[wire.rank]):
        slot[...] = float(sum(4 ** next(leaves) for _ in range(1 << node.level)))
    wire.ledger.clear()
    total = allreduce()
    wire.settle()
    assert (total.get() == sum(4.0 ** leaf for leaf in range(wire.size * each))).all()
    ring = make_schedule("ring", wire.size, wire.size * each)
    assert wire.ledger.total("sent") == ring.elements_sent(elements)[wire.rank] * 8


def test_nccls_own_allreduce_is_refused_on_the_cpu(comm):
    schedule, like = make_schedule("nccl", comm.size, comm.size), np.zeros(0)
    if comm.size > 1:
        with pytest.raises(CollectiveError, match=r"arrays are on the CPU.*say --allreduce ring"):
            open_allreduce(schedule, Wire(comm), 5, like, "test", lambda start, stop: {})


def test_a_wire_without_a_device_says_what_to_do(comm, cupy):
    wire = Wire(comm)
    array = cupy.zeros(3)
    with pytest.raises(ValueError, match=r"Wire\(comm, device=...\)"):
        wire.start([], [(0, array, {})], "test", "rows")
