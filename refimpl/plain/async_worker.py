"""A worker among owners: in each of its steps it pulls from all of them, computes once, and pushes to all of them.

What it computes is its ``share`` of the work, which has two methods:
    needs(clock)               -> {name: the rows of each sparse variable that its step ``clock`` needs}
    gradients(clock, values)   -> {name: gradient, an array or RowGradient}: the worker's part of the mean over all N
                                  workers' examples. The N parts add up to that mean; N times a part is its own mean.
"""

from functools import cached_property

import numpy as np

from kernels import RowGradient
from kernels.rows.definition import merge_rows
from refimpl.plain.tree import add_up
from refimpl.plain.worker import Worker


class Step:
    """A step of a worker, of which owners have answered as ``answers`` says: owner -> (over, values)."""

    def __init__(self, share, clock, variables, owners):
        self.share, self.clock, self.variables, self.owners = share, clock, variables, owners
        self.needs, self.answers = share.needs(clock), {}

    def rows(self, owner):
        """Return what to pull from an owner: name -> row numbers."""
        return {name: ids[ids % self.owners == owner] for name, ids in self.needs.items()}

    @property
    def complete(self):
        """Whether all owners have answered: the gradients can be computed."""
        return len(self.answers) == self.owners

    @property
    def over(self):
        """Whether all owners have said that the training is over: this step pushes nothing."""
        return self.complete and all(over for over, _ in self.answers.values())

    @cached_property
    def computed(self):
        """The gradients of this step, computed once."""
        values = {}
        for i, v in enumerate(self.variables):
            if v.sparse:
                values[v.name] = np.empty((len(self.needs[v.name]), v.shape[1]), v.dtype)
                for owner, (_, answer) in self.answers.items():
                    values[v.name][self.needs[v.name] % self.owners == owner] = answer[v.name]
            else:
                values[v.name] = self.answers[i % self.owners][1][v.name]
        return self.share.gradients(self.clock, values)

    def gradients(self, owner):
        """Return what to push to an owner. A worker pushes to every one, if only to say that its step is done."""
        parts = {}
        for i, v in enumerate(self.variables):
            g = self.computed[v.name]
            if v.sparse:
                parts[v.name] = RowGradient(g.ids[g.ids % self.owners == owner], g.rows[g.ids % self.owners == owner])
            elif i % self.owners == owner:
                parts[v.name] = g
        return parts


class Share:
    """A worker's microbatches of a model's global batches; its step ``clock`` is its part of batch ``clock``."""

    def __init__(self, model, data, seed, worker, workers):
        self.worker, self.variables = Worker(model, data, seed, {}, worker, workers), model.variables

    def needs(self, clock):
        """Begin a step; return the rows that it needs."""
        return self.worker.needs(clock)

    def gradients(self, clock, values):
        """Return the gradients of the step begun: those of its microbatches, added up in tree order."""
        _, found = self.worker.gradients(values)
        sums = {}
        for v in self.variables:
            nodes = {(i, i + 1): g for i, g in enumerate(found[v.name] or [self.worker.nothing()[v.name]])}
            sums[v.name] = add_up(0, len(nodes), nodes, merge_rows if v.sparse else np.add)
        return sums
