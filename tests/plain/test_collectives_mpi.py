"""The plain allreduces against the fast schedules: every bit, and every byte that a rank sends."""

import numpy as np
import pytest

from refimpl.collectives import make_schedule
from refimpl.collectives.running import run
from refimpl.plain.adding.tree import add_up, form_nodes, microbatches_of
from refimpl.plain.collectives.allreduce import allreduce
from refimpl.plain.collectives.hierarchical import Hierarchy
from refimpl.plain.collectives.ring import ring_allreduce
from refimpl.plain.messages import Messages
from refimpl.transport import Communicator
from refimpl.transport.machines import in_blocks

pytestmark = [pytest.mark.mpi, pytest.mark.ranks(2, 3)]
LENGTHS = (0, 1, 2, 7, 12, 1001)


def gradients(microbatches, length, dtype):
    """Numbers whose sum tells any order from any other, the same on every rank."""
    return (np.random.default_rng(length).standard_normal((microbatches, length)) * 1000).astype(dtype)


def fast(comm, name, nodes, microbatches, **options):
    """Return the sum by a fast schedule, and the bytes that this rank sent."""
    communicator = Communicator.of(comm)
    total = run(make_schedule(name, comm.size, microbatches, **options), communicator, [array.copy() for array in nodes])
    return total, communicator.ledger.total("sent")


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("length", LENGTHS)
def test_ring_is_the_fast_ring(comm, length, dtype):
    mine = gradients(comm.size, length, dtype)[comm.rank]
    expected, bytes_sent = fast(comm, "ring", [mine], comm.size)
    assert ring_allreduce(comm, mine) == bytes_sent
    assert mine.tobytes() == expected.tobytes()


@pytest.mark.parametrize("microbatches, dtype", [(1, "float32"), (3, "float32"), (8, "float64"), (13, "float32")])
def test_allreduce_is_the_fast_direct(comm, microbatches, dtype):
    """Also with fewer microbatches than ranks: some bring nothing."""
    for length in LENGTHS:
        messages, values = Messages(comm), gradients(microbatches, length, dtype)
        start, stop = microbatches_of(comm.rank, comm.size, microbatches)
        nodes = list(form_nodes(start, values[start:stop], np.add).values())
        total = allreduce(messages, np.array(nodes, dtype).reshape(len(nodes), length), microbatches)
        expected, bytes_sent = fast(comm, "direct", nodes or [np.zeros(length, dtype)], microbatches)
        leaves = {(v, v + 1): values[v] for v in range(microbatches)}
        assert total.dtype == dtype
        assert total.tobytes() == expected.tobytes() == add_up(0, microbatches, leaves, np.add).tobytes()
        assert messages.sent["allreduce"] == bytes_sent


@pytest.mark.ranks(3, 4)
@pytest.mark.parametrize("microbatches", [1, 3, 8, 13])
def test_hierarchical_is_the_fast_one(comm, microbatches):
    """On one machine, on machines of two ranks, and on machines of one."""
    for each, length in ((each, length) for each in (1, 2, comm.size) if comm.size % each == 0 for length in LENGTHS):
        hierarchy, values = Hierarchy(comm, each), gradients(microbatches, length, "float32")
        start, stop = microbatches_of(comm.rank, comm.size, microbatches)
        nodes = list(form_nodes(start, values[start:stop], np.add).values())
        total = hierarchy.allreduce(np.array(nodes, np.float32).reshape(len(nodes), length), microbatches)
        expected, bytes_sent = fast(comm, "hierarchical", nodes or [np.zeros(length, "float32")], microbatches,
                                    machines=in_blocks(comm.size, each))
        assert total.tobytes() == expected.tobytes()
        assert sum((hierarchy.within.sent + hierarchy.across.sent).values()) == bytes_sent


@pytest.mark.mpi(min_size=3)
def test_the_comparison_sees_another_order(comm):
    """From three ranks on the ring adds in another order than the tree, and sends the same bytes for one node each."""
    mine = gradients(comm.size, 1001, "float32")[comm.rank]
    messages = Messages(comm)
    total = allreduce(messages, mine[None], comm.size)
    ring_allreduce(comm, mine)
    assert mine.tobytes() != total.tobytes() and np.allclose(mine, total, atol=0.01)


def test_exchange_counts_what_leaves_the_machine(comm):
    """Rank r sends r + 1 numbers to each; machines of two ranks."""
    messages = Messages(comm, each=2)
    arrived = messages.exchange([np.full((comm.rank + 1, 3), to) for to in range(comm.size)], "t")
    assert [a.tolist() for a in arrived] == [[[comm.rank] * 3] * (r + 1) for r in range(comm.size)]
    elsewhere = sum(r // 2 != comm.rank // 2 for r in range(comm.size))
    assert messages.sent["t"] == elsewhere * (comm.rank + 1) * 24
