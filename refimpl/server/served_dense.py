"""Dense variables on the server, each whole on one owner: the classical parameter server.

Every step all ranks pull the whole value and push a whole gradient: 2 w (N - 1) bytes at the owner of w bytes, which
is the hot spot that allreduce does not have (PAPER.md, Bytes). With local aggregation a machine pulls and pushes once.
"""

from typing import Callable

import numpy as np

from models import Variable
from refimpl.gradients import Arena, DenseTree, Layout, TreeSum, cover, fold, leaves_of
from refimpl.server.groups import Groups, group_nodes
from refimpl.server.road import Holding, Summed
from refimpl.transport import Communicator


class ServedDense:
    """The road of dense variables on the server. owners: name -> rank.  leaves: V. Collective to use.

    groups: ranks that pull and add up gradients together; None: each rank for itself.

    The arena is ordered by owner, so that what a rank and an owner exchange is one piece of it.
    """

    phase, local = "push", False

    def __init__(self, variables: list[Variable], owners: dict[str, int], comm: Communicator, leaves: int, seed: int, xp=np,
                 groups: Groups | None = None):
        self.comm, self.xp, self.owners = comm, xp, owners
        self.variables = sorted(variables, key=lambda v: owners[v.name])  # stable: else in the model's order
        layout = Layout.of(self.variables)
        ends = np.cumsum([0] + [sum(v.size for v in self.variables if owners[v.name] == r) for r in range(comm.size)])
        self.pieces = [slice(int(a), int(b)) for a, b in zip(ends, ends[1:])]
        self.sizes = [layout.overlaps(piece.start, piece.stop) for piece in self.pieces]
        self.values = Arena(layout, xp).fill({v.name: v.initial_value(seed) for v in self.variables})
        self.gradients = DenseTree(layout, xp)
        self.holdings = {v.name: Holding(v, self.values[v.name]) for v in self.variables if owners[v.name] == comm.rank}
        self._meet(groups or Groups.alone(comm.size), leaves)

    def _meet(self, groups, leaves):
        """Learn who speaks to whom, and which nodes of the tree they bring. through: owner -> its handler here."""
        me, self.leaves = self.comm.rank, leaves
        self.mates, self.handled, self.handlers = groups.mates(me), groups.handled(me), groups.handlers(me)
        group = groups.group_of(me)
        owners = [owner for owner in range(self.comm.size) if self.sizes[owner]]
        self.through = {owner: groups.handler(group, owner) for owner in owners}
        self.nodes = {rank: cover(leaves_of(rank, self.comm.size, leaves)) for rank in groups.members[group]}
        members = {rank: groups.members[groups.group_of(rank)] for rank in self.handlers}
        self.joined = {rank: [node for node, _ in group_nodes(mates, self.comm.size, leaves)]
                       for rank, mates in members.items()}

    def _message(self, peer, flat, owner):
        return peer, flat, self.sizes[owner]

    def _own_or_handled(self):
        """The owners whose pieces pass through this rank, itself among them."""
        return [owner for owner, handler in self.through.items() if handler == self.comm.rank]

    def open(self):
        pass

    def pull(self, needs, phase="pull"):
        me, pieces = self.comm.rank, [self.values.flat[piece] for piece in self.pieces]
        sends = [self._message(handler, pieces[me], me) for handler in self.handlers]
        receives = [self._message(owner, pieces[owner], owner) for owner in self.handled]
        self.comm.exchange(sends, receives, phase, "dense")
        sends = [self._message(mate, pieces[owner], owner) for mate in self.mates for owner in self._own_or_handled()]
        receives = [self._message(handler, pieces[owner], owner)
                    for owner, handler in self.through.items() if handler != me]
        self.comm.exchange(sends, receives, "spread", "dense")
        return {}

    def dense(self):
        return self.values.views

    def add(self, leaf, gradients):
        self.gradients.push(leaf, gradients)

    def held(self):
        return self.gradients.held()

    def push(self, arrived: Callable[[Summed], None] | None = None):
        parts = self.gradients.take()
        merged = self._aggregate(parts)
        me, size = self.comm.rank, self.pieces[self.comm.rank].stop - self.pieces[self.comm.rank].start
        sends = [self._message(owner, flat, owner) for owner in self.handled for _, flat in merged.get(owner, ())]
        nodes = [(node, handler, self.xp.empty(size, self.values.flat.dtype))
                 for handler in self.handlers for node in self.joined[handler]]
        receives = [self._message(handler, flat, me) for _, handler, flat in nodes]
        self.comm.exchange(sends, receives, "push", "dense")
        total = fold(sorted([(node, flat) for node, _, flat in nodes] + merged.get(me, []), key=_first_leaf), self._add)
        if total is None:  # it owns nothing, or variables without elements
            total = self.xp.empty(size, self.values.flat.dtype)
        self.gradients.give_back(arena for _, arena in parts)
        summed = self._summed(total)
        for piece in summed if arrived is not None else []:
            arrived(piece)
        return summed

    def _aggregate(self, parts) -> dict[int, list]:
        """Add up what the group has: owner -> [(node, its piece)], for owners whose pieces pass through this rank."""
        me = self.comm.rank
        sends = [self._message(handler, arena.flat[self.pieces[owner]], owner)
                 for owner, handler in self.through.items() if handler != me for _, arena in parts]
        merged, receives = {}, []
        for owner in self._own_or_handled():
            piece, merged[owner] = self.pieces[owner], [(node, arena.flat[self.pieces[owner]]) for node, arena in parts]
            for mate in self.mates:
                flats = [(node, self.xp.empty(piece.stop - piece.start, self.values.flat.dtype))
                         for node in self.nodes[mate]]
                receives += [self._message(mate, flat, owner) for _, flat in flats]
                merged[owner] += flats
        self.comm.exchange(sends, receives, "aggregate", "dense")
        for owner, nodes in merged.items():
            tree = TreeSum(self._add)
            for node, flat in sorted(nodes, key=_first_leaf):
                tree.push(node, flat)
            merged[owner] = tree.parts
        return merged

    def _add(self, left, right):
        return self.xp.add(left, right, out=left)

    def _summed(self, total):
        """Cut an owner's summed piece into its variables."""
        result, first = [], 0
        for holding in self.holdings.values():
            size = holding.variable.size
            result.append(Summed(holding, None, total[first:first + size].reshape(holding.variable.shape), True))
            first += size
        return result

    def collect(self, name, slot, everyone, phase):
        owner, me = self.owners[name], self.comm.rank
        takers = [r for r in (range(self.comm.size) if everyone else [0]) if r != owner]
        variable = next(v for v in self.variables if v.name == name)
        if me == owner:
            whole = self.holdings[name].array(slot)
            self.comm.exchange([(r, whole, {name: variable.size}) for r in takers], [], phase, "dense")
            return whole if everyone or me == 0 else None
        if me not in takers:
            return None
        whole = self.xp.empty(variable.shape, variable.dtype)
        self.comm.exchange([], [(owner, whole, {name: variable.size})], phase, "dense")
        return whole

    def place(self, name, slot, read):
        if name in self.holdings:
            self.holdings[name].array(slot)[...] = read(None)


def _first_leaf(part):
    return part[0].first_leaf
