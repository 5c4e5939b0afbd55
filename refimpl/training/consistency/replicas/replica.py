"""Equals plain/without_barriers/own_replica.py: the whole model, trained by one rank, with its optimizer state."""

from kernels import take_rows
from kernels.arrays import read_only
from refimpl.gradients import Arena, Layout
from refimpl.server import ReducedGradient, Shard
from refimpl.training.step.update import update_shards
from refimpl.training.consistency.served.worker import AsyncWorker


class ReplicaWorker(AsyncWorker):
    """A rank's replica, and the worker that computes its gradients. Local.

    parameters: the ``Parameters``, all replicated. They have the first values, and the optimizer's state.
    x: all values.  times: V / v_i, the factor that makes this rank's gradient a mean over its own examples.
    """

    def __init__(self, model, data, options, parameters):
        comm = parameters.comm
        super().__init__(model, data, options, parameters.plan, comm.rank)
        kept = {name: shard for exchange in parameters.exchanges for name, shard in exchange.shards.items()}
        self.x = Arena(Layout.of(model.variables)).fill({name: shard.values for name, shard in kept.items()})
        self.shards = {v.name: Shard(v, self.x[v.name], kept[v.name].state) for v in model.variables}
        self.times = data.microbatches / len(self.microbatches)

    def update(self):
        """Update the replica with the gradients of the current step."""
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
