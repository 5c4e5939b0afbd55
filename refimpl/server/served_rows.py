"""Sparse variables sharded over the ranks: pull the rows a step needs, push row gradients to their owners.

    pull:  rank --- row numbers ---> owner          push:  rank --- row numbers, rows ---> owner
           rank <------ rows ------- owner                 the owner forms the tree's sum of what it was sent

Every rank is a worker and a server. What a rank owns itself never leaves it. (PAPER.md, Mechanisms.)
"""

import numpy as np

from kernels import RowGradient, array_module, merge_rows, take_rows
from refimpl.collectives.wire import Wire
from refimpl.gradients import RowTree, cover, fold, leaves_of
from refimpl.server.partition import Partitioning
from refimpl.server.road import Holding, Summed


class ServedRows:
    """The road of sparse variables on the server. Collective to use: all ranks call the same methods in step.

    partitionings: name -> Partitioning, the same on every rank.  leaves: V, the number of microbatches.
    """

    phase, local = "push", False

    def __init__(self, variables, partitionings: dict[str, Partitioning], wire: Wire, leaves: int, seed: int, xp=np):
        self.wire, self.partitionings = wire, partitionings
        self.variables = list(variables)
        self.nodes = [cover(leaves_of(r, wire.size, leaves)) for r in range(wire.size)]
        self.gradients = RowTree(variables, xp)
        self.holdings = {v.name: Holding(v, self._initial(v, seed, xp)) for v in variables}
        self.others = [r for r in range(wire.size) if r != wire.rank]

    def _initial(self, variable, seed, xp):
        parts = self.partitionings[variable.name]
        tables = [variable.initial_rows(seed, rows.start, rows.stop, rows.step)
                  for rows in map(parts.rows_of_partition, parts.partitions_of(self.wire.rank))]
        return xp.asarray(np.concatenate([np.empty((0, variable.shape[1]), variable.dtype), *tables]))

    def dense(self):
        return {}

    def open(self):
        pass

    def pull(self, needs, phase="pull"):
        routes = {name: self.partitionings[name].route(needs[name]) for name in self.holdings if name in needs}
        if not routes:
            return {}
        answers = {}
        asked = self.wire.swap(np.stack([route.counts for route in routes.values()], axis=1), phase)
        sends, receives, requests = [], [], {}
        for j, (name, route) in enumerate(routes.items()):
            for rank in self.others:
                requests[name, rank] = np.empty(asked[rank, j], np.int64)
                receives.append((rank, requests[name, rank], {name: int(asked[rank, j])}))
                wanted = np.ascontiguousarray(route.local[route.part(rank)])
                sends.append((rank, wanted, {name: len(wanted)}))
        self.wire.exchange(sends, receives, phase, "indices")
        sends, receives = [], []
        for name, route in routes.items():
            table = self.holdings[name].values
            answer = array_module(table).empty((len(route.local), table.shape[1]), table.dtype)
            own = route.part(self.wire.rank)
            answer[own] = take_rows(table, route.local[own])
            for rank in self.others:
                rows = take_rows(table, requests[name, rank])
                sends.append((rank, rows, {name: rows.size}))
                receives.append((rank, answer[route.part(rank)], {name: answer[route.part(rank)].size}))
            answers[name] = answer
        self.wire.exchange(sends, receives, phase, "rows")
        return {name: route.unsort(answers[name]) for name, route in routes.items()}

    def add(self, leaf, gradients):
        self.gradients.push(leaf, gradients)

    def push(self):
        parts = self.gradients.take()
        routed = {name: [(self.partitionings[name].route(g.ids), g.rows) for _, g in nodes]
                  for name, nodes in parts.items()}
        counts = self._push_counts(routed)
        mine = {name: [(route.local[route.part(self.wire.rank)], route.sort(rows)[route.part(self.wire.rank)])
                       for route, rows in pairs] for name, pairs in routed.items()}
        arrived = self._send_gradients(routed, counts)
        summed = []
        for name, holding in self.holdings.items():
            nodes = [(node, RowGradient(*(mine[name] if rank == self.wire.rank else arrived[name, rank])[i]))
                     for rank in range(self.wire.size) for i, node in enumerate(self.nodes[rank])]
            total = fold(nodes, merge_rows)
            summed.append(Summed(holding, total.ids, total.rows, True))
        return summed

    def _push_counts(self, routed):
        """Tell every owner how many rows of each variable and node it will be sent: (N, most nodes, variables)."""
        most = max(len(nodes) for nodes in self.nodes)
        counts = np.zeros((self.wire.size, most, len(routed)), np.int64)
        for j, pairs in enumerate(routed.values()):
            for i, (route, _) in enumerate(pairs):
                counts[:, i, j] = route.counts
        return self.wire.swap(counts.reshape(self.wire.size, -1), "push").reshape(counts.shape)

    def _send_gradients(self, routed, counts):
        """Return arrived[name, rank] = [(local ids, rows) for each of the rank's nodes]."""
        arrived, ids_out, ids_in, rows_out, rows_in = {}, [], [], [], []
        for j, (name, pairs) in enumerate(routed.items()):
            table = self.holdings[name].values
            xp = array_module(table)
            sorted_rows = [(route, route.sort(rows)) for route, rows in pairs]
            for rank in self.others:
                arrived[name, rank] = [(np.empty(n, np.int64), xp.empty((n, table.shape[1]), table.dtype))
                                       for n in counts[rank, :len(self.nodes[rank]), j]]
                for ids, rows in arrived[name, rank]:
                    ids_in.append((rank, ids, {name: ids.size}))
                    rows_in.append((rank, rows, {name: rows.size}))
                for route, rows in sorted_rows:
                    ids, some = np.ascontiguousarray(route.local[route.part(rank)]), rows[route.part(rank)]
                    ids_out.append((rank, ids, {name: ids.size}))
                    rows_out.append((rank, some, {name: some.size}))
        self.wire.exchange(ids_out, ids_in, "push", "indices")
        self.wire.exchange(rows_out, rows_in, "push", "rows")
        return arrived

    def collect(self, name, slot, everyone, phase):
        parts, variable = self.partitionings[name], self.holdings[name].variable
        mine = self.holdings[name].array(slot)
        takers = range(self.wire.size) if everyone else [0]
        sends = [(r, mine, {name: mine.size}) for r in takers if r != self.wire.rank]
        if self.wire.rank not in takers:
            self.wire.exchange(sends, [], phase, "rows")
            return None
        xp = array_module(mine)
        tables = {r: xp.empty((parts.rows_owned(r), variable.shape[1]), mine.dtype) for r in self.others}
        self.wire.exchange(sends, [(r, t, {name: t.size}) for r, t in tables.items()], phase, "rows")
        whole = xp.empty(variable.shape, mine.dtype)
        for rank in range(self.wire.size):
            table, first = mine if rank == self.wire.rank else tables[rank], 0
            for rows in map(parts.rows_of_partition, parts.partitions_of(rank)):
                whole[rows.start:rows.stop:rows.step] = table[first:first + len(rows)]
                first += len(rows)
        return whole

    def place(self, name, slot, read):
        parts, target, first = self.partitionings[name], self.holdings[name].array(slot), 0
        for rows in map(parts.rows_of_partition, parts.partitions_of(self.wire.rank)):
            target[first:first + len(rows)] = read(rows)
            first += len(rows)
