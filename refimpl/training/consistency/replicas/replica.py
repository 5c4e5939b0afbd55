"""Equals plain/own_replica.py: a replica of a whole model that one rank trains, with an optimizer of its own."""

from kernels import take_rows
from kernels.arrays import read_only
from refimpl.gradients import Arena, Layout
from refimpl.server import ReducedGradient, Shard
from refimpl.training.step.update import update_shards
from refimpl.training.consistency.served.worker import AsyncWorker


class ReplicaWorker(AsyncWorker):
    """A rank's replica, and the worker that computes with it. Local.

    parameters: the ``Parameters``, all replicated: where the values begin; the optimizer's state is theirs.
    x: all values.  times: V / v_i, of which a gradient is its own part of the mean.
    """

    def __init__(self, model, data, options, parameters):
        comm = parameters.comm
        super().__init__(model, data, options, parameters.plan, comm.rank)
        kept = {name: shard for exchange in parameters.exchanges for name, shard in exchange.shards.items()}
        self.x = Arena(Layout.of(model.variables)).fill({name: shard.values for name, shard in kept.items()})
        self.shards = {v.name: Shard(v, self.x[v.name], kept[v.name].state) for v in model.variables}
        self.times = data.microbatches / len(self.microbatches)

    def update(self):
        """Let the optimizer do the step whose gradients are computed."""
        reduced = []
        for name, shard in self.shards.items():
            gradient = self.gradients[name]
            ids, values = (gradient.ids, gradient.rows) if shard.variable.sparse else (None, gradient)
            if self.times != 1:
                values = values * values.dtype.type(self.times)
            reduced.append(ReducedGradient(shard, ids, values, True))
        update_shards(self.options, self.clock, reduced)

    def _values(self):
        return ({v.name: read_only(self.x[v.name]) for v in self.model.variables if not v.sparse},
                {v.name: take_rows(self.x[v.name], self.wanted[v.name].ids) for v in self.sparse})
