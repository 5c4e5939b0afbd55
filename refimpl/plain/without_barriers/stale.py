"""How old a pushed gradient is, for each row, and how it is corrected: the part of an owner that a push goes through.

The staleness of a row, or of a dense variable, is the number of its updates since the worker pulled it.
"""

from typing import NamedTuple

import numpy as np


class Push(NamedTuple):
    """What a worker pushes after step ``clock``. gradients: {name: array or RowGradient}.

    version: the number of updates that the owner had done when the worker pulled.
    pulled: name -> (places of the pulled rows in the owner's array, their values, how often each was updated by then).
    """

    worker: int
    clock: int
    version: int
    gradients: dict
    pulled: dict


class Stale:
    """What ``Owner`` does with one gradient of a push. ``Owner``, which inherits this, explains the attributes."""

    def corrected(self, v, push):
        """Return a push's gradient of v, corrected for staleness, with places in this owner's array as ids."""
        g = push.gradients[v.name]
        at, rows = (g.ids // self.owners, g.rows) if v.sparse else (..., g)
        then, updates = self.old(v, push, at)
        staleness = self.stale(v, push, at, updates)
        self.staleness.update(staleness.ravel().tolist())
        if not v.statistic:
            rows = self.correct(v, at, rows, staleness.reshape(-1, 1) if v.sparse else staleness, then)
        return type(g)(at, rows) if v.sparse else rows

    def old(self, v, push, at):
        """Return the (values, updates) that were pulled, for the rows or the dense variable that a push changes."""
        pulled, then, updates = push.pulled[v.name]
        if v.sparse and not np.isin(at, pulled).all():
            raise ValueError(f"worker {push.worker} pushes rows of {v.name} that it has not pulled")
        place = np.searchsorted(pulled, at) if v.sparse else ...
        return then[place], updates[place]

    def stale(self, v, push, at, updates):
        """Return the staleness: the number of updates of each row, or dense variable, since the worker pulled it."""
        return self.updates[v.name][at] - updates

    def correct(self, v, at, g, staleness, then):
        """Return the corrected gradient of values[at]."""
        return self.correction(v.name, self.values[v.name], at, g, staleness, then)
