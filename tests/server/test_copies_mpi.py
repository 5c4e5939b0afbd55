"""What owners and their clients copy into the slots of a channel: short messages; neither rows nor long arrays."""

import numpy as np
import pytest

from kernels import RowGradient
from models import Uniform, Variable
from refimpl.gradients import cover, leaves_of
from refimpl.gradients.codecs import IDENTITY, codec_of
from refimpl.plan import Placement, Plan
from refimpl.server import Partitioning
from refimpl.server.clients import Clients
from refimpl.server.dense import DenseServer
from refimpl.strategies import ServedRows
from refimpl.transport import Communicator
from refimpl.transport.channel.choice import WAYS, over_channel

pytestmark = [pytest.mark.mpi(min_size=2), pytest.mark.ranks(3)]
TABLES = [Variable(name, (29, width), sparse=True, initial=Uniform(1.0), dtype="float64")
          for name, width in (("wide", 5), ("thin", 1))]
LEAVES = 7


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("scheme", ["contiguous", "interleaved"])
def test_rows_are_formed_in_the_slot(comm, way, scheme):
    """What is copied there: each list of a message of row numbers; and gradient rows that are in owners' order."""
    communicator, leaves = Communicator.of(comm, 30.0), list(leaves_of(comm.rank, comm.size, LEAVES))
    parts = Partitioning.round_robin(29, comm.size, comm.size, scheme)
    placed = [(v, ServedRows(parts.owners, scheme)) for v in TABLES]
    plan = Plan("ps", comm.size, LEAVES, "direct", tuple(Placement(v.name, s) for v, s in placed),
                communicator.machines)
    exchange, ids = ServedRows.exchange(placed, plan, communicator, 1, np, True), np.arange(comm.rank, 29)
    others = sum((parts.owners_of(ids) == owner).any() for owner in range(comm.size) if owner != comm.rank)
    with over_channel(communicator, way):
        transport = communicator.host_transport
        rows = exchange.pull({v.name: ids for v in TABLES})
        assert all((rows[v.name] == v.initial_value(1)[ids]).all() for v in TABLES)
        assert transport.copied == comm.size - 1 + 2 * others
        for leaf in leaves:
            exchange.add(leaf, {v.name: RowGradient(ids, rows[v.name].copy()) for v in TABLES})
        before = transport.copied
        exchange.push()
        nodes = len(cover(leaves))
        assert transport.copied - before == comm.size - 1 + 2 * nodes * others * (1 + (scheme == "contiguous"))


@pytest.mark.parametrize("way", WAYS)
def test_long_pieces_are_sent_from_their_arena(comm, way):
    """Pieces of 40,000 bytes: nothing is copied, by pulls or by pushes."""
    size, me, communicator = comm.size, comm.rank, Communicator.of(comm, 30.0)
    values, gradients = np.zeros(5000 * size), np.arange(5000.0 * size) + me
    pieces, mine = np.split(values, size), np.split(gradients, size)
    pieces[me][:] = me + 1
    server = DenseServer(pieces, [{"v": 5000}] * size, communicator, Clients.every_rank(size, size),
                         codec_of(IDENTITY), np)
    with over_channel(communicator, way):
        server.pull()
        total = server.push({owner: [(node, piece) for node in cover([me])] for owner, piece in enumerate(mine)})
        assert communicator.host_transport.copied == 0
    assert (values == np.repeat(np.arange(size) + 1.0, 5000)).all()
    assert (total == size * np.arange(5000.0 * me, 5000.0 * (me + 1)) + sum(range(size))).all()
