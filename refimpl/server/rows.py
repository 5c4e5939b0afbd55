"""The parameter server of sparse variables: pull the rows that a step needs, push row gradients to their owners.

    pull    rank --- row numbers ---> owner        each rank is worker and server; it sends nothing to itself
            rank <------ rows ------- owner
    push    rank --- row numbers, rows -> owner, which adds up the nodes of the microbatch tree that it receives (I1)

Row numbers go first, then rows in rounds. If few, they go together. Equals ``refimpl.plain.strategies.server``.
"""

from functools import partial

import numpy as np

from kernels import RowGradient, array_module, is_numpy, take_rows
from refimpl.gradients import fold
from refimpl.gradients.codecs import IDENTITY, Codec, codec_of
from refimpl.server.clients import Clients
from refimpl.server.partition import Partitioning, row_bytes
from refimpl.server.rounds import ahead, cut, partitions_a_round, round_edges
from refimpl.server.row_numbers import begin_row_numbers
from refimpl.server.shard import ReducedGradient, Shard
from refimpl.transport import Communicator
from refimpl.transport.packed import Taken


class RowServer:
    """Some sparse variables, exchanged together. The constructor is local; pull and push are collective.

    shards: name -> the rows that this rank owns.  partitionings: name -> the owners of rows, the same on every rank.
    clients: the ranks that pull and push, and the nodes of the tree that they push.  codec: of row gradients.
    Several pulls and pushes may be under way at the same time if their messages have different tags.
    """

    def __init__(self, shards: dict[str, Shard], partitionings: dict[str, Partitioning], comm: Communicator,
                 clients: Clients, codec: Codec = codec_of(IDENTITY)):
        self.shards, self.partitionings, self.comm, self.nodes = shards, partitionings, comm, clients.nodes
        self.codec = codec
        self.owners, self.clients = clients.owners[comm.rank], clients.of(comm.rank)
        self.edges, self.mine = {}, [name for name, parts in partitionings.items() if comm.rank in parts.owners]
        for name, parts in partitionings.items():
            each = partitions_a_round(parts, row_bytes(shards[name].variable))
            self.edges[name] = [round_edges(parts, owner, each) for owner in range(comm.size)]
        self.rounds = {name: max(map(len, edges)) - 1 for name, edges in self.edges.items()}

    def pull(self, needs: dict, phase: str = "pull") -> dict:
        """Return name -> (k, d), the current values of rows. needs: name -> (k,) int64, sorted, unique."""
        return [*self.pulling(needs, phase)][-1]

    def pulling(self, needs: dict, phase: str = "pull", tag: int = 0):
        """Yield None after row numbers were sent, and after rows of each round were. At last yield what ``pull`` does.
        """
        names = list(needs)
        routes = {name: self.partitionings[name].route(ids) for name, ids in needs.items()}
        served = [name for name in names if name in self.mine]
        finish = begin_row_numbers(
            self.comm, {o: [(name, routes[name].of(o)) for name in names if self._owns(o, name)] for o in self.owners},
            {client: served for client in self.clients}, phase, tag=tag)
        yield None
        asked, _ = finish()
        mine = {name: self._cut_by_owner(name, routes[name]) for name in names}
        theirs = [(client, name, ids, cut(ids, self.edges[name][self.comm.rank]))
                  for client, lists in asked.items() for name, ids in zip(served, lists)]
        answers = {name: self.empty(name, len(ids)) for name, ids in needs.items()}

        def begin(number):
            sends = [(client, rows, {name: rows.size}) for client, name, ids, pieces in theirs
                     for rows in [taken(self.shards[name].values, ids[_of(pieces, number)])]]
            receives = [(owner, rows, {name: rows.size}) for name in names for owner in self.owners
                        for rows in [answers[name][_of(mine[name][owner], number)]]]
            pending = self.comm.start(sends, receives, phase, "rows", tag=tag)
            for name in names:
                own = _of(mine[name][self.comm.rank], number)
                answers[name][own] = take_rows(self.shards[name].values, routes[name].numbers[own])
            return pending

        for pending in ahead(map(begin, self._rounds(names))):
            yield None
            pending.wait()
        yield {name: routes[name].unsort(rows) for name, rows in answers.items()}

    def push(self, parts: dict, phase: str = "push", tag: int = 0):
        """Yield None after row numbers and the first rows were sent. Then yield each sum as soon as it is complete.

        A sum is a ReducedGradient of a round's partitions that this rank owns.
        parts: name -> [(node, RowGradient)], encoded, for each node that this rank pushes; ids are the variable's rows.
        """
        sent = {name: [self._routed(name, gradient) for _, gradient in nodes] for name, nodes in parts.items()}
        left, gone, announced = self._announce(sent, phase, tag)
        yield None
        coming = self._coming(list(sent), *announced())

        def begin(number):
            sends, receives, nodes = [] if gone and number == 0 else self._leaving(sent, left, number), [], {}
            for name in parts:
                nodes[name] = [(node, RowGradient(route.numbers[own], route.sort(gradients, own)))
                               for (node, _), (route, gradients, pieces) in zip(parts[name], sent[name])
                               for own in [_of(pieces[self.comm.rank], number)]]
                for client, node, numbers, pieces, there in coming[name]:
                    here = _of(pieces, number)
                    some = there[here] if there is not None else self.empty(name, here.stop - here.start, self.codec)
                    if there is None:
                        receives.append((client, some, {name: some.size}))
                    nodes[name].append((node, RowGradient(numbers[here], some)))
            return nodes, [self.comm.start(sends, receives, phase, "rows", tag=tag)] if sends or receives else []

        for number, (nodes, pending) in enumerate(ahead(map(begin, self._rounds(parts)))):
            for messages in [*pending, *gone]:
                messages.wait()
            gone.clear()
            for name in parts:
                if number < len(self.edges[name][self.comm.rank]) - 1:
                    total = fold(nodes[name], self.codec.merge_rows)
                    yield ReducedGradient(self.shards[name], total.ids, self.codec.decode(total.rows), True)

    def _routed(self, name, gradient):
        """Return (route, rows in the ids' order, owner -> slices by round) of a row gradient."""
        route = self.partitionings[name].route(gradient.ids)
        return route, gradient.rows, self._cut_by_owner(name, route)

    def _leaving(self, sent, owners, number):
        """Return the messages of rows that leave for some owners in a round: (owner, rows, {variable: elements})."""
        return [(owner, some, {name: some.size}) for name, nodes in sent.items() for route, gradients, pieces in nodes
                for owner in owners for some in [_part(route, gradients, _of(pieces[owner], number))]]

    def _announce(self, sent, phase, tag):
        """Send row numbers, and rows from the host behind them, before it is known what comes.

        Return the owners that get rows in rounds, the messages of round 0 if they are on their way, and a function that
        returns what comes.
        """
        leaving = {owner: [(name, *each) for name in sent if self._owns(owner, name) for each in sent[name]]
                   for owner in self.owners}
        room = self.room_of(sent)
        rows = {owner: [] if room is None else [
            _part(route, rows, slice(*route.bounds[owner:owner + 2])) for _, route, rows, _ in some]
            for owner, some in leaving.items()}
        announced = begin_row_numbers(
            self.comm, {o: [(name, route.of(o)) for name, route, _, _ in some] for o, some in leaving.items()},
            {client: [name for name in sent if name in self.mine for _ in self.nodes[client]]
             for client in self.clients}, phase, rows, room, tag)
        gone = [] if room is None else [
            self.comm.start(self._leaving(sent, rows.keys(), 0), [], phase, "rows", tag=tag)]
        return rows.keys(), gone, announced

    def _coming(self, names, announced, came) -> dict:
        """Return name -> (client, node, row numbers, slices by round, rows) of each row gradient that will arrive.

        rows: None if they have not come with their numbers.
        """
        coming: dict = {name: [] for name in names}
        for client, lists in announced.items():
            following, rows = iter(lists), iter(came.get(client) or [None] * len(lists))
            for name in names if lists else ():
                for node in self.nodes[client] if name in self.mine else ():
                    numbers = next(following)
                    coming[name].append((client, node, numbers, cut(numbers, self.edges[name][self.comm.rank]),
                                         next(rows)))
        return coming

    def room_of(self, names):
        """Return a function that makes an array for pushed rows; None if any variable is on a device. Local."""
        on_host = is_numpy(*(self.shards[name].values for name in names))
        return partial(self.empty, codec=self.codec) if on_host else None

    def _owns(self, owner, name) -> bool:
        return len(self.edges[name][owner]) > 1

    def _rounds(self, names) -> range:
        """The rounds of an exchange of some variables: as many as the owner with the most rounds has."""
        return range(max([self.rounds[name] for name in names], default=0))

    def _cut_by_owner(self, name, route) -> dict[int, list[slice]]:
        """owner -> the slice of a route in each round, for this rank and the owners whose client it is."""
        return {o: cut(route.of(o), self.edges[name][o], int(route.bounds[o])) for o in (*self.owners, self.comm.rank)}

    def empty(self, name, rows: int, codec: Codec = codec_of(IDENTITY)):
        """Return a new (rows, d) array for rows of a variable, or their messages, on the table's device. Local."""
        table = self.shards[name].values
        return array_module(table).empty((rows, table.shape[1]), codec.dtype_of(table.dtype))


def taken(table, ids):
    """Return rows of a table to be sent: on the host without a copy until they are sent. Local."""
    return (Taken if isinstance(table, np.ndarray) else take_rows)(table, ids)


def _part(route, rows, where):
    """Return the rows of a route's numbers[where], to be sent. rows: in the ids' order."""
    return rows[where] if route.order is None else taken(rows, route.order[where])


def _of(pieces, number):
    """Return the piece of a round; empty if the owner has fewer rounds."""
    return pieces[number] if number < len(pieces) else slice(0, 0)
