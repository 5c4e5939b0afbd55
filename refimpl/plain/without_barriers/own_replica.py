"""A replica of the whole model that one rank trains with its own microbatches and its own optimizer.

    G_i = V / v_i · g_i        g_i: rank i's part of Σ g_i, the mean gradient of the global batch
                               v_i: the number of the rank's microbatches, of V in all

G_i is the mean gradient over the rank's own examples, and Σ v_i G_i / V is the mean over all examples. The optimizer
and its state belong to the rank, also after the replica is averaged with others (``decentralised``). An update changes
only those rows of a sparse variable that have a gradient on this rank.
"""

import numpy as np

from kernels import RowGradient
from refimpl.plain.adding.tree import microbatches_of
from refimpl.plain.updating.clipping import Optimizer
from refimpl.plain.without_barriers.async_worker import Share


class OwnReplica:
    """A rank's replica. x: all values (w,), one variable after the other, of one dtype.  examples: v_i.

    model, data: see ``models``.  options: as ``hybrid.Options``, without clipping.  values: {name: view of x}.
    times: V / v_i. Each rank needs at least one microbatch.
    """

    def __init__(self, model, data, options, rank, ranks):
        first, stop = microbatches_of(rank, ranks, data.microbatches)
        self.share, self.done = Share(model, data, options.seed, rank, ranks), 0
        self.examples, self.times = stop - first, data.microbatches / (stop - first)
        self.x = np.concatenate([v.initial_value(options.seed).ravel() for v in model.variables])
        parts = np.split(self.x, np.cumsum([v.size for v in model.variables])[:-1])
        self.values = {v.name: part.reshape(v.shape) for v, part in zip(model.variables, parts)}
        self.optimizer = Optimizer(model.variables, self.values, options)

    def step(self, x):
        """Return x after one step of the optimizer with the rank's own gradient at x."""
        self.x[...] = x  # and so all arrays in ``values``, which are views of it
        # of sparse variables the needed rows, of dense ones the whole value
        needed = {name: self.values[name][ids] for name, ids in self.share.needs(self.done).items()}
        sums = {}
        for name, g in self.share.gradients(self.done, self.values | needed).items():
            at, g = (g.ids, g.rows) if isinstance(g, RowGradient) else (..., g)
            sums[name] = at, g * g.dtype.type(self.times)
        self.optimizer.update(self.done, sums)
        self.done += 1
        return self.x.copy()
