"""A worker pulls what its microbatches need, and computes their gradients. It does not know how anything travels."""

from dataclasses import replace

import numpy as np

from kernels import RowGradient
from kernels.random import key_of
from refimpl.plain.tree import microbatches_of


class Worker:
    """This rank's share of the global batches. model, data: see ``models``.  strategies: name -> where it lives."""

    def __init__(self, model, data, seed, strategies, rank, ranks):
        self.model, self.data, self.seed, self.strategies = model, data, seed, strategies
        self.first, self.stop = microbatches_of(rank, ranks, data.microbatches)

    def compute(self, step):
        """Return (losses, {name: gradients}) of this rank's microbatches in a step. Collective: it pulls."""
        if self.data.starts_epoch(step):  # what each microbatch carries from step to step
            self.carried = {v: {} for v in range(self.first, self.stop)}
        batches = [self.batch(step, v) for v in range(self.first, self.stop)]
        needs = [{} if batch is None else self.model.rows_needed(batch) for batch in batches]
        dense, pulled = self.pull(needs)
        losses, gradients = [], {v.name: [] for v in self.model.variables}
        for batch, need in zip(batches, needs):
            loss, found = 0.0, self.nothing()
            if batch is not None:
                rows = {name: rows[np.searchsorted(ids, need[name])] for name, (ids, rows) in pulled.items()}
                loss, found = self.model.loss_and_gradients(dense, rows, batch)
            losses.append(float(loss))
            for name, gradient in found.items():  # a model may use its dense arrays again: keep copies
                gradients[name].append(gradient if isinstance(gradient, RowGradient) else np.array(gradient))
        return losses, gradients

    def batch(self, step, v):
        """Return microbatch v of a step, None if it has no examples. Its random numbers depend on nothing else."""
        batch = self.data.microbatch(step, v)
        key = key_of(self.seed, "microbatch", step, v)
        return None if batch is None else replace(batch, key=key, state=self.carried[v])

    def pull(self, needs):
        """Return the dense values, and (ids, rows) of each sparse variable: each row once. Collective."""
        dense, pulled = {}, {}
        for v in self.model.variables:
            if v.sparse:
                ids = np.unique(np.concatenate([np.empty(0, np.int64), *(need[v.name] for need in needs if need)]))
                pulled[v.name] = ids, self.strategies[v.name].pull(ids)
            else:
                dense[v.name] = self.strategies[v.name].pull()
        return dense, pulled

    def nothing(self):
        """Return the gradients of a microbatch without examples."""
        return {v.name: RowGradient(np.empty(0, np.int64), np.empty((0, v.shape[1]), v.dtype)) if v.sparse
                else np.zeros(v.shape, v.dtype) for v in self.model.variables}
