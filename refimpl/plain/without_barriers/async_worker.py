"""A worker without barriers: in each step it pulls from all owners, computes once, and pushes to all owners.

The clock of a worker is the number of its current step, counted from 0. The worker's ``share`` of the work has two
methods:
    needs(clock)               -> {name: the rows of each sparse variable that step ``clock`` needs}
    gradients(clock, values)   -> {name: gradient}, arrays and RowGradients. The gradients of all N workers add up to
                                  the mean over all examples.
"""

from functools import cached_property

import numpy as np

from kernels import RowGradient
from kernels.rows.definition import merge_rows
from refimpl.plain.adding.tree import add_up
from refimpl.plain.training.worker import Worker


class Step:
    """One step of a worker. answers: owner -> (whether the training is over, values), of owners that have answered."""

    def __init__(self, share, clock, variables, owners):
        self.share, self.clock, self.variables, self.owners = share, clock, variables, owners
        self.needs, self.answers = share.needs(clock), {}

    def rows(self, owner):
        """Return {name: the row numbers to pull from this owner}."""
        return {name: ids[ids % self.owners == owner] for name, ids in self.needs.items()}

    @property
    def complete(self):
        """Whether all owners have answered, so that the gradients can be computed."""
        return len(self.answers) == self.owners

    @property
    def over(self):
        """Whether all owners have answered that the training is over. Then this step pushes nothing."""
        return self.complete and all(over for over, _ in self.answers.values())

    @cached_property
    def computed(self):
        """The gradients of this step, computed once."""
        values = {}
        for i, v in enumerate(self.variables):
            if v.sparse:
                values[v.name] = np.empty((len(self.needs[v.name]), v.shape[1]), v.dtype)
                for owner, (_, answer) in self.answers.items():  # row r came from owner r mod N
                    values[v.name][self.needs[v.name] % self.owners == owner] = answer[v.name]
            else:
                values[v.name] = self.answers[i % self.owners][1][v.name]
        return self.share.gradients(self.clock, values)

    def gradients(self, owner):
        """Return the gradients to push to an owner. They may be empty: the push tells that the step is done."""
        parts = {}
        for i, v in enumerate(self.variables):
            g = self.computed[v.name]
            if v.sparse:
                parts[v.name] = RowGradient(g.ids[g.ids % self.owners == owner], g.rows[g.ids % self.owners == owner])
            elif i % self.owners == owner:
                parts[v.name] = g
        return parts


class Share:
    """A worker's microbatches of the global batches of a model. Step ``clock`` uses global batch ``clock``."""

    def __init__(self, model, data, seed, worker, workers):
        self.worker, self.variables = Worker(model, data, seed, {}, worker, workers), model.variables

    def needs(self, clock):
        """Begin a step; return the rows that it needs."""
        return self.worker.needs(clock)

    def gradients(self, clock, values):
        """Return the gradients of the current step, summed over its microbatches in tree order."""
        _, found = self.worker.gradients(values)
        sums = {}
        for v in self.variables:
            leaves = found[v.name] or [self.worker.nothing()[v.name]]  # a worker may have no microbatch
            nodes = {(i, i + 1): g for i, g in enumerate(leaves)}
            sums[v.name] = add_up(0, len(nodes), nodes, merge_rows if v.sparse else np.add)
        return sums
