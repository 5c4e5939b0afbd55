"""The parameter server of dense variables. All pieces of an owner are contiguous and travel in one message.

    pull    owner --- values of its piece --> rank
    push    rank --- gradient of a piece -> owner

An owner of w bytes sends and receives 2 w (N - 1) bytes in all. If one owner has the whole model, it is a hot spot,
which allreduce avoids (docs/paper.md, Bytes). If each rank has an N-th of it, the bytes are those of allreduce.
Equals ``refimpl.plain.strategies.dense_server`` and ``reduce_scatter``.
"""

from functools import cached_property

from refimpl.gradients import TreeSum, cover, fold, leaves_of
from refimpl.server.clients import Aggregators, Clients
from refimpl.transport import Communicator


class DenseServer:
    """Dense variables of all owners, exchanged together. Collective to use.

    pieces[o]: owner o's values, a flat view of this rank's copy.  elements[o]: {variable: elements} in it.
    """

    def __init__(self, pieces: list, elements: list[dict], comm: Communicator, clients: Clients, codec, xp):
        self.pieces, self.elements, self.comm, self.xp, self.nodes = pieces, elements, comm, xp, clients.nodes
        self.codec = codec
        self.owners, self.clients = clients.owners[comm.rank], clients.of(comm.rank)

    def pull(self, phase: str = "pull"):
        """Update the pieces of all owners whose client this rank is."""
        me = self.comm.rank
        self.comm.exchange([self.message(client, self.pieces[me], me) for client in self.clients],
                           [self.message(owner, self.pieces[owner], owner) for owner in self.owners], phase, "dense")

    @cached_property
    def boxes(self) -> list:
        """The arrays that receive clients' gradients, which are then added up: (client, node, flat). Local."""
        return [(client, node, self.box(self.comm.rank))
                for client in self.clients for node in self.nodes[client]]

    def push(self, nodes: dict[int, list], phase: str = "push"):
        """Return the encoded sum of this rank's piece, valid until the next push. nodes: owner -> [(node, flat)]."""
        me = self.comm.rank
        sends = [self.message(owner, flat, owner) for owner in self.owners for _, flat in nodes[owner]]
        self.comm.exchange(sends, [self.message(client, flat, me) for client, _, flat in self.boxes], phase, "dense")
        total = fold([(node, flat) for _, node, flat in self.boxes] + nodes[me], self.codec.merge)
        return self.box(me) if total is None else total  # None: this rank owns nothing

    def message(self, peer, flat, owner):
        """Return a message for ``Communicator.exchange``: an owner's piece, to or from a peer. Local."""
        return peer, flat, self.elements[owner]

    def box(self, owner):
        """Return a new array for a gradient of an owner's piece. Local."""
        return self.xp.empty(self.pieces[owner].shape, self.codec.dtype_of(self.pieces[owner].dtype))


class LocalDenseAggregation:
    """A dense server with local aggregation: a machine pulls each value once, and pushes one sum. leaves: V."""

    def __init__(self, server: DenseServer, aggregators: Aggregators, leaves: int):
        self.server, self.comm, me = server, server.comm, server.comm.rank
        self.peers = [rank for rank in aggregators.machine(me) if rank != me]
        self.nodes = {rank: cover(leaves_of(rank, self.comm.size, leaves)) for rank in self.peers}
        self.through = {owner: aggregators.aggregator(me, owner) for owner in range(self.comm.size)}

    def pull(self, phase: str = "pull"):
        """Update all pieces."""
        self.server.pull(phase)
        message, pieces, me = self.server.message, self.server.pieces, self.comm.rank
        sends = [message(peer, pieces[o], o) for peer in self.peers for o, rank in self.through.items() if rank == me]
        receives = [message(rank, pieces[o], o) for o, rank in self.through.items() if rank != me]
        self.comm.exchange(sends, receives, "scatter", "dense")

    def push(self, nodes: dict[int, list], phase: str = "push"):
        """Return the sum of the gradients of this rank's own piece. nodes: owner -> [(node, flat gradient)]."""
        message, me = self.server.message, self.comm.rank
        sends = [message(rank, flat, owner) for owner, rank in self.through.items() if rank != me
                 for _, flat in nodes[owner]]
        merged, receives = {}, []
        for owner in [o for o, rank in self.through.items() if rank == me]:
            merged[owner] = list(nodes[owner])
            for peer in self.peers:
                flats = [(node, self.server.box(owner)) for node in self.nodes[peer]]
                receives += [message(peer, flat, owner) for _, flat in flats]
                merged[owner] += flats
        self.comm.exchange(sends, receives, "aggregate", "dense")
        # only up to nodes of the tree that the machine can compute
        add = self.server.codec.merge
        return self.server.push({owner: TreeSum.of(parts, add).parts for owner, parts in merged.items()}, phase)
