"""A worker pulls the values that its microbatches need and computes their gradients.

It does not know how values and gradients travel: each variable has a strategy, which decides this.
"""

from dataclasses import replace

import numpy as np

from kernels import RowGradient
from kernels.random import key_of
from refimpl.plain.adding.tree import microbatches_of


class Worker:
    """This rank's share of the global batches. model, data: see ``models``.  strategies: variable name -> strategy."""

    def __init__(self, model, data, seed, strategies, rank, ranks):
        self.model, self.data, self.seed, self.strategies = model, data, seed, strategies
        self.first, self.stop = microbatches_of(rank, ranks, data.microbatches)
        self.carried = {}  # microbatch -> the state that it keeps from step to step of an epoch

    def compute(self, step):
        """Return (losses, {name: gradients}) of this rank's microbatches in a step. Collective: it pulls."""
        return self.gradients(self.pull(self.needs(step)))

    def needs(self, step):
        """Begin a step; return {name: the sorted unique rows that its microbatches need} of the sparse variables."""
        if self.data.starts_epoch(step):
            self.carried = {v: {} for v in range(self.first, self.stop)}
        self.batches = [self.batch(step, v) for v in range(self.first, self.stop)]
        self.rows = [{} if batch is None else self.model.rows_needed(batch) for batch in self.batches]
        none = np.empty(0, np.int64)  # so that a rank without microbatches has an array to concatenate
        self.ids = {v.name: np.unique(np.concatenate([none, *(rows[v.name] for rows in self.rows if rows)]))
                    for v in self.model.variables if v.sparse}
        return self.ids

    def pull(self, ids):
        """Return {name: value}: all of a dense variable, rows ids[name] of a sparse one. Collective."""
        values = {}
        for v in self.model.variables:
            strategy = self.strategies[v.name]
            values[v.name] = strategy.pull(ids[v.name]) if v.sparse else strategy.pull()
        return values

    def gradients(self, values):
        """Return (losses, {name: gradients}) of the current step. values: what ``pull`` returned."""
        dense = {v.name: values[v.name] for v in self.model.variables if not v.sparse}
        losses, gradients = [], {v.name: [] for v in self.model.variables}
        for batch, needed in zip(self.batches, self.rows):
            loss, found = 0.0, self.nothing()
            if batch is not None:
                # of the rows of all microbatches, those that this one needs; searchsorted: ids[i] -> i
                rows = {name: values[name][np.searchsorted(ids, needed[name])] for name, ids in self.ids.items()}
                loss, found = self.model.loss_and_gradients(dense, rows, batch)
            losses.append(float(loss))
            for name, gradient in found.items():  # copies, because a model may reuse its dense arrays
                gradients[name].append(gradient if isinstance(gradient, RowGradient) else np.array(gradient))
        return losses, gradients

    def batch(self, step, v):
        """Return microbatch v of a step, or None if it has no examples. Its random key depends on seed, step and v."""
        batch = self.data.microbatch(step, v)
        key = key_of(self.seed, "microbatch", step, v)
        return None if batch is None else replace(batch, key=key, state=self.carried[v])

    def nothing(self):
        """Return the gradients of a microbatch without examples."""
        return {v.name: RowGradient(np.empty(0, np.int64), np.empty((0, v.shape[1]), v.dtype)) if v.sparse
                else np.zeros(v.shape, v.dtype) for v in self.model.variables}
