"""Dense variables replicated on every rank: gradients in arenas, summed by an allreduce schedule."""

import numpy as np

from models import Variable
from refimpl.collectives.running.allreduce import open_allreduce
from refimpl.collectives.schedule import Schedule
from refimpl.gradients import Arena, DenseTree, Layout
from refimpl.server.road import Holding, Summed
from refimpl.transport import Communicator


class ReplicatedDense:
    """The road of dense variables by allreduce. Collective to use."""

    phase, local = "allreduce", True

    def __init__(self, variables: list[Variable], schedule: Schedule, comm: Communicator, seed: int, xp=np, shared=True):
        layout = Layout.of(variables)
        self.comm, self.variables, self.schedule, self.xp, self.shared = comm, list(variables), schedule, xp, shared
        self.values = Arena(layout, xp).fill({v.name: v.initial_value(seed) for v in variables})
        self.holdings = {v.name: Holding(v, self.values[v.name]) for v in variables}

    def open(self):
        layout = self.values.layout
        self.allreduce = open_allreduce(self.schedule, self.comm, layout.size, self.values.flat, "allreduce",
                                        layout.overlaps, self.shared)
        # what leaves this rank is formed where it leaves from: no copy
        homes = {node.first_leaf: Arena(layout, flat=slot)
                 for node, slot in zip(self.schedule.inputs[self.comm.rank], self.allreduce.slots)}
        self.gradients = DenseTree(layout, self.xp, homes)

    def pull(self, needs, phase="pull"):
        return {}

    def dense(self):
        return self.values.views

    def add(self, leaf, gradients):
        self.gradients.push(leaf, gradients)

    def held(self):
        return self.gradients.held()

    def push(self):
        self.gradients.take()
        total, counts = Arena(self.values.layout, flat=self.allreduce()), self.comm.rank == 0
        # read before all ranks meet at the next step's data: only after that are slots written again
        return [Summed(holding, None, total[name], counts) for name, holding in self.holdings.items()]

    def collect(self, name, slot, everyone, phase):
        return self.holdings[name].array(slot) if everyone or self.comm.rank == 0 else None

    def place(self, name, slot, read):
        self.holdings[name].array(slot)[...] = read(None)
