"""Dense variables replicated on every rank: gradients in one arena, summed by an allreduce schedule."""

import numpy as np

from models import Variable
from refimpl.collectives.run import Runner
from refimpl.collectives.schedule import Schedule
from refimpl.collectives.wire import Wire
from refimpl.gradients import Arena, DenseTree, Layout
from refimpl.server.road import Holding, Summed


class ReplicatedDense:
    """The road of dense variables by allreduce. Collective to use."""

    phase = "allreduce"

    def __init__(self, variables: list[Variable], schedule: Schedule, wire: Wire, seed: int, xp=np):
        layout = Layout.of(variables)
        self.wire, self.variables = wire, list(variables)
        self.values = Arena(layout, xp).fill({v.name: v.initial_value(seed) for v in variables})
        self.holdings = {v.name: Holding(v, self.values[v.name]) for v in variables}
        self.gradients = DenseTree(layout, xp)
        self.allreduce = Runner(schedule, wire, layout.size, self.values.flat, "allreduce", layout.overlaps)

    def pull(self, needs, phase="pull"):
        pass

    def dense(self):
        return self.values.views

    def rows(self, name, ids):
        raise KeyError(f"{name} is a dense variable: it has no rows to gather")

    def add(self, leaf, gradients):
        self.gradients.push(leaf, gradients)

    def push(self):
        arenas = [arena for _, arena in self.gradients.take()] or [self.gradients.arena()]
        self.allreduce([arena.flat for arena in arenas])
        self.gradients.give_back(arenas)  # read below, before the next step writes them
        counts = self.wire.rank == 0
        return [Summed(holding, None, arenas[0][name], counts) for name, holding in self.holdings.items()]

    def collect(self, name, slot, everyone, phase):
        return self.holdings[name].array(slot) if everyone or self.wire.rank == 0 else None

    def place(self, name, slot, read):
        self.holdings[name].array(slot)[...] = read(None)
