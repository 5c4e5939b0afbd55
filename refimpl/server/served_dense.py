"""Dense variables on the server, each whole on one owner: the classical parameter server.

Every step all ranks pull the whole value and push a whole gradient: 2 w (N - 1) bytes at the owner of w bytes, which
is the hot spot that allreduce does not have (PAPER.md, Bytes).
"""

import numpy as np

from models import Variable
from refimpl.collectives.wire import Wire
from refimpl.gradients import Arena, DenseTree, Layout, cover, fold, leaves_of
from refimpl.server.road import Holding, Summed


class ServedDense:
    """The road of dense variables on the server. owners: name -> rank.  leaves: V. Collective to use.

    The arena is ordered by owner, so that what a rank and an owner exchange is one piece of it.
    """

    phase, local = "push", False

    def __init__(self, variables: list[Variable], owners: dict[str, int], wire: Wire, leaves: int, seed: int, xp=np):
        self.wire, self.xp = wire, xp
        self.variables = sorted(variables, key=lambda v: owners[v.name])  # stable: else in the model's order
        layout = Layout.of(self.variables)
        self.owned_names = [[v.name for v in self.variables if owners[v.name] == r] for r in range(wire.size)]
        ends = np.cumsum([0] + [sum(v.size for v in self.variables if owners[v.name] == r) for r in range(wire.size)])
        self.pieces = [slice(int(a), int(b)) for a, b in zip(ends, ends[1:])]
        self.sizes = [layout.overlaps(piece.start, piece.stop) for piece in self.pieces]
        self.values = Arena(layout, xp).fill({v.name: v.initial_value(seed) for v in self.variables})
        self.gradients = DenseTree(layout, xp)
        self.nodes = [cover(leaves_of(r, wire.size, leaves)) for r in range(wire.size)]
        self.others = [r for r in range(wire.size) if r != wire.rank]
        own = set(self.owned_names[wire.rank])
        self.holdings = {v.name: Holding(v, self.values[v.name]) for v in self.variables if v.name in own}
        self.owners = owners

    def open(self):
        pass

    def pull(self, needs, phase="pull"):
        mine = self.pieces[self.wire.rank]
        sends = [(r, self.values.flat[mine], self.sizes[self.wire.rank]) for r in self.others]
        receives = [(r, self.values.flat[self.pieces[r]], self.sizes[r]) for r in self.others]
        self.wire.exchange(sends, receives, phase, "dense")
        return {}

    def dense(self):
        return self.values.views

    def add(self, leaf, gradients):
        self.gradients.push(leaf, gradients)

    def push(self):
        parts, me = self.gradients.take(), self.wire.rank
        piece = self.pieces[me]
        sends = [(owner, arena.flat[self.pieces[owner]], self.sizes[owner])
                 for owner in self.others for _, arena in parts]
        arrived = {rank: [self.xp.empty(piece.stop - piece.start, self.values.flat.dtype) for _ in self.nodes[rank]]
                   for rank in self.others}
        receives = [(rank, flat, self.sizes[me]) for rank, flats in arrived.items() for flat in flats]
        self.wire.exchange(sends, receives, "push", "dense")
        arrived[me] = [arena.flat[piece] for _, arena in parts]
        total = fold([(node, flat) for rank in range(self.wire.size) for node, flat in zip(self.nodes[rank], arrived[rank])],
                     lambda left, right: self.xp.add(left, right, out=left))
        self.gradients.give_back(arena for _, arena in parts)
        return self._summed(total)

    def _summed(self, total):
        """Cut an owner's summed piece into its variables."""
        result, first = [], 0
        for holding in self.holdings.values():
            size = holding.variable.size
            result.append(Summed(holding, None, total[first:first + size].reshape(holding.variable.shape), True))
            first += size
        return result

    def collect(self, name, slot, everyone, phase):
        owner, me = self.owners[name], self.wire.rank
        takers = [r for r in (range(self.wire.size) if everyone else [0]) if r != owner]
        variable = next(v for v in self.variables if v.name == name)
        if me == owner:
            whole = self.holdings[name].array(slot)
            self.wire.exchange([(r, whole, {name: variable.size}) for r in takers], [], phase, "dense")
            return whole if everyone or me == 0 else None
        if me not in takers:
            return None
        whole = self.xp.empty(variable.shape, variable.dtype)
        self.wire.exchange([], [(owner, whole, {name: variable.size})], phase, "dense")
        return whole

    def place(self, name, slot, read):
        if name in self.holdings:
            self.holdings[name].array(slot)[...] = read(None)
