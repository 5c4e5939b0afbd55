"""Push row gradients to their owners, added up on the way among the ranks of a group.

    rank --- row numbers, rows ---> handler --- of the group's nodes ---> owner      "aggregate", "push"

A handler forms the nodes of the microbatch tree that its group's nodes join to, and no other sums: so the owner, who
adds up the nodes of all groups, forms the tree's root whoever sent what (DESIGN, I1). Row numbers go first, then rows
partition by partition: while a round is added up, the next is on its way.
"""


from kernels import RowGradient, array_module, merge_rows
from refimpl.gradients import TreeSum, cover, fold, leaves_of
from refimpl.server.groups import group_nodes
from refimpl.server.lists import exchange_lists
from refimpl.server.road import Holding, Summed
from refimpl.server.rounds import ahead
from refimpl.server.shards import Shards


class Push:
    """One push. parts: name -> [(node, row gradient)] of this rank's leaves.  leaves: V."""

    def __init__(self, shards: Shards, holdings: dict[str, Holding], parts, leaves: int):
        self.shards, self.comm, self.holdings, self.parts = shards, shards.comm, holdings, parts
        ranks, members = shards.groups.ranks, shards.groups.members
        self.nodes = {rank: cover(leaves_of(rank, ranks, leaves)) for rank in members[shards.group]}
        self.joined = [group_nodes(group, ranks, leaves) for group in members]
        self.routes = {name: [(shards.places[name].route(g.ids), g.rows) for _, g in nodes]
                       for name, nodes in parts.items()}
        self.sorted = {name: [route.sort(rows) for route, rows in pairs] for name, pairs in self.routes.items()}

    def run(self):
        """Yield a Summed of each round's partitions that this rank owns, as soon as it is there. Collective."""
        self._exchange_numbers()
        for number, (merged, arrived, pending) in enumerate(ahead(self._to_owners())):
            pending.wait()
            for name in self.parts:
                first, end = self.shards.served(name, number)
                if first < end:
                    yield self._summed(name, number, merged[name], arrived[name])

    def _exchange_numbers(self):
        """Tell handlers, and then owners, which rows will come."""
        shards, me, names = self.shards, self.shards.me, list(self.parts)
        through = {h: [shards.part_for(h, name, route) for name in names for route, _ in self.routes[name]]
                   for h in (me, *shards.mates)}
        own = through.pop(me)
        lists = exchange_lists(self.comm, through, {m: [shards.expected(name) for name in names for _ in self.nodes[m]]
                                                    for m in shards.mates}, "aggregate")
        lists[me] = own
        self.held = {name: [lists[rank][j * len(nodes) + i] for rank, nodes in self.nodes.items()
                            for i in range(len(nodes))] for j, name in enumerate(names)}
        joined = self.joined[shards.group]
        self.united = {name: [shards.union(name, [held[i] for i in members]) for _, members in joined]
                       for name, held in self.held.items()}
        self.announced = exchange_lists(
            self.comm, shards.parts_of_owners([keys for name in names for keys in self.united[name]]),
            {h: [(name, shards.pieces[name]) for name in names for _ in self._nodes_through(h)]
             for h in shards.handlers}, "push")

    def _nodes_through(self, handler):
        return self.joined[self.shards.groups.group_of(handler)]

    def _to_handlers(self, number):
        """Begin a round within the group; return (name -> rows of each node, this rank's own among them; pending)."""
        shards, sends, receives, rows_of = self.shards, [], [], {}
        for name in self.parts:
            span, held, rows_of[name] = shards.mine(name, number), iter(self.held[name]), []
            for rank, nodes in self.nodes.items():
                for i in range(len(nodes)):
                    keys = next(held)
                    if rank == shards.me:
                        own = self.routes[name][i][0].part(*shards.places[name].span(rank, number))
                        rows_of[name].append(self.sorted[name][i][own])
                        continue
                    piece = keys.piece(*span)
                    rows_of[name].append(self._empty(name, piece.stop - piece.start))
                    receives.append((rank, rows_of[name][-1], {name: rows_of[name][-1].size}))
            for mate in shards.mates:
                place = shards.places[name].span(mate, number)
                for (route, _), rows in zip(self.routes[name], self.sorted[name]):
                    some = rows[route.part(*place)]
                    sends.append((mate, some, {name: some.size}))
        return rows_of, self.comm.start(sends, receives, "aggregate", "rows")

    def _to_owners(self):
        """Yield each round, begun: (name -> the group's nodes, added up; handler's rows by name; pending)."""
        rounds = self.shards.rounds(self.parts)
        for number, (rows_of, pending) in enumerate(ahead(self._to_handlers(number) for number in rounds)):
            pending.wait()
            merged = {name: self._merged(name, number, rows_of[name]) for name in self.parts}
            yield merged, *self._hand_on(number, merged)

    def _merged(self, name, number, rows_of) -> list[RowGradient]:
        """Add up what the group has of a round, to the nodes of the tree that it can form."""
        span = self.shards.mine(name, number)
        tree, nodes = TreeSum(merge_rows), (node for own in self.nodes.values() for node in own)
        for node, keys, rows in zip(nodes, self.held[name], rows_of):
            tree.push(node, RowGradient(keys.numbers[keys.piece(*span)], rows))
        return [gradient for _, gradient in tree.parts]

    def _hand_on(self, number, merged):
        shards, sends, receives = self.shards, [], []
        arrived: dict[str, list] = {name: [] for name in merged}
        for j, (name, nodes) in enumerate(merged.items()):
            for gradient, keys in zip(nodes, self.united[name]):
                first = keys.piece(*shards.mine(name, number)).start
                for owner in shards.owners:
                    piece = keys.piece(*shards.mine(name, number, owner))
                    rows = gradient.rows[piece.start - first:piece.stop - first]
                    sends.append((owner, rows, {name: rows.size}))
            low, high = shards.served(name, number)
            if low < high:
                for handler, lists in self.announced.items():
                    joined = self._nodes_through(handler)
                    for (node, _), keys in zip(joined, lists[j * len(joined):(j + 1) * len(joined)]):
                        ids = keys.numbers[keys.piece(low, high)]
                        rows = self._empty(name, len(ids))
                        receives.append((handler, rows, {name: rows.size}))
                        arrived[name].append((node, RowGradient(ids, rows)))
        return arrived, self.comm.start(sends, receives, "push", "rows")

    def _summed(self, name, number, merged, arrived) -> Summed:
        """Add up a partition of this rank's own: the nodes of all groups."""
        shards = self.shards
        place, _ = shards.places[name].span(shards.me, number, shards.me)
        nodes = list(arrived)
        for (node, _), gradient, keys in zip(self.joined[shards.group], merged, self.united[name]):
            first = keys.piece(*shards.mine(name, number)).start
            piece = keys.piece(*shards.mine(name, number, shards.me))
            nodes.append((node, RowGradient(shards.places[name].local(keys.numbers[piece], place),
                                            gradient.rows[piece.start - first:piece.stop - first])))
        total = fold(sorted(nodes, key=lambda part: part[0].first_leaf), merge_rows)
        return Summed(self.holdings[name], total.ids, total.rows, True)

    def _empty(self, name, rows):
        table = self.holdings[name].values
        return array_module(table).empty((rows, table.shape[1]), table.dtype)
