"""Local aggregation: the ranks of a machine merge their pulls and pushes, so that each row crosses the network once.

    pull    rank --- row numbers ----> aggregator --- their union ---> owner     "gather", then the server's "pull"
            rank <------- rows ------- aggregator <------ rows ------- owner     "scatter"
    push    rank -- row gradients ---> aggregator --- their sum -----> owner     "aggregate", then the server's "push"

It wraps a ``RowServer``, whose clients are the aggregators. They add up only nodes of the microbatch tree, so the
owner's sum is the tree's root (I1). Equals ``refimpl.plain.strategies.aggregation``, bit for bit.
"""

import numpy as np

from kernels import RowGradient, array_module, take_rows, unique_ids
from refimpl.gradients import TreeSum, cover, leaves_of
from refimpl.server.clients import Aggregators
from refimpl.server.row_numbers import begin_row_numbers
from refimpl.server.rows import RowServer, taken


class LocalAggregation:
    """A row server with local aggregation: the same methods and the same results. leaves: V."""

    def __init__(self, server: RowServer, aggregators: Aggregators, leaves: int):
        self.server, self.comm, me = server, server.comm, server.comm.rank
        self.machine = aggregators.machine(me)
        self.peers = [rank for rank in self.machine if rank != me]
        self.nodes = {rank: cover(leaves_of(rank, self.comm.size, leaves)) for rank in self.machine}
        self.aggregator = aggregators.aggregator(me, np.arange(self.comm.size))
        self.through = {name: set(self.aggregator[list(parts.owners)].tolist())
                        for name, parts in server.partitionings.items()}

    def pull(self, needs: dict, phase: str = "pull") -> dict:
        """Return name -> (k, d), the current values of rows. needs: name -> (k,) int64, sorted, unique."""
        me, places = self.comm.rank, {name: self._by_aggregator(name, ids) for name, ids in needs.items()}
        asked = {(name, rank): needs[name][some] for name in needs for rank, some in places[name].items()}
        lists, _ = begin_row_numbers(
            self.comm, {peer: [(name, asked[name, peer]) for name in needs if peer in self.through[name]]
                        for peer in self.peers}, {peer: self._mine(needs) for peer in self.peers}, "gather")()
        wanted = {(name, me): asked[name, me] for name in needs}
        wanted |= {(name, peer): ids for peer, some in lists.items() for name, ids in zip(self._mine(needs), some)}
        union = {name: unique_ids(np.concatenate([ids for (of, _), ids in wanted.items() if of == name]))
                 for name in needs}
        found = self.server.pull(union, phase)
        answers = {(name, rank): (take_rows if rank == me else taken)(found[name], np.searchsorted(union[name], ids))
                   for (name, rank), ids in wanted.items()}
        came = {key: self.server.empty(key[0], len(ids)) for key, ids in asked.items()}
        self.comm.exchange([(rank, rows, {name: rows.size}) for (name, rank), rows in answers.items() if rank != me],
                           [(rank, rows, {name: rows.size}) for (name, rank), rows in came.items() if rank != me],
                           "scatter", "rows")
        came |= {(name, me): answers[name, me] for name in needs}
        return {name: self._put_together(name, places[name], came) for name in needs}

    def push(self, parts: dict, phase: str = "push"):
        """Yield what ``RowServer.push`` does; parts: see there."""
        mine = {name: [(node, g, self._by_aggregator(name, g.ids)) for node, g in nodes]
                for name, nodes in parts.items()}
        leaving = {peer: [(name, g, where[peer]) for name in parts if peer in self.through[name]
                          for _, g, where in mine[name]] for peer in self.peers}
        rows = {peer: [taken(g.rows, where) for _, g, where in some] for peer, some in leaving.items()}
        ids, along = begin_row_numbers(
            self.comm, {peer: [(name, g.ids[where]) for name, g, where in some] for peer, some in leaving.items()},
            {peer: [name for name in self._mine(parts) for _ in self.nodes[peer]] for peer in self.peers}, "aggregate",
            rows, self.server.room_of(parts))()
        sends = [(peer, part, {name: part.size}) for peer, some in rows.items()
                 for (name, _, _), part in zip(leaving[peer], some)]
        came, receives = {name: [] for name in parts}, []
        for peer, lists in ids.items():
            following, there = iter(lists), iter(along.get(peer) or [None] * len(lists))
            for name in self._mine(parts):
                for node in self.nodes[peer]:
                    numbers, some = next(following), next(there)
                    if some is None:
                        some = self.server.empty(name, len(numbers), self.server.codec)
                        receives.append((peer, some, {name: some.size}))
                    came[name].append((node, RowGradient(numbers, some)))
        if sends or receives:
            self.comm.exchange(sends, receives, "aggregate", "rows")
        for name in parts:
            for node, g, where in mine[name]:
                own = where[self.comm.rank]
                came[name].append((node, RowGradient(g.ids[own], take_rows(g.rows, own))))
        # only up to nodes of the tree that the machine can compute
        merge = self.server.codec.merge_rows
        yield from self.server.push({name: TreeSum.of(nodes, merge).parts for name, nodes in came.items()}, phase)

    def _mine(self, names) -> list[str]:
        """The variables for which this rank is an owner's aggregator."""
        return [name for name in names if self.comm.rank in self.through[name]]

    def _by_aggregator(self, name, ids) -> dict:
        """rank of this machine -> (k,) int64 indices into ``ids`` of the rows whose aggregator it is."""
        parts = self.server.partitionings[name]
        to = self.aggregator[parts.owners_of(ids)]
        return {rank: np.flatnonzero(to == rank) for rank in self.machine}

    def _put_together(self, name, places, came):
        rows, order = [came[name, rank] for rank in places], np.concatenate(list(places.values()))
        back = np.empty_like(order)
        back[order] = np.arange(len(order))
        return take_rows(array_module(rows[0]).concatenate(rows), back)
