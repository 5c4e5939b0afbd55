"""Corrections of stale gradients: the worker computed g from the old values b; the values are w now.

    none                g                                     the gradient is not changed
    staleness-aware     g / max(1, τ)                         τ: the updates of this row since the worker pulled it
    dc-asgd             g + λ G ⊙ g ⊙ (w - b),  G = N g       delay compensation: G ⊙ G replaces the second derivatives
    dc-asgd-adaptive    the same with λ / sqrt(MS + ε),  MS = m MS + (1 - m) G ⊙ G

g is the gradient of one variable, or of the rows that the worker touches. The gradients g of all N workers add up to
the mean over all examples. If all workers have equally many, G = N g is the mean over the worker's own examples. The
paper corrects G, by the formula G + λ G ⊙ G ⊙ (w - b). Divided by N, it is the line above. Each line is computed
element by element from left to right, ((λ G) g) (w - b), and every operation is rounded to the dtype of the values.
Buffers of a model (``statistic`` in ``models.Variable``) are not corrected. Sources: Zhang et al. 2016
(staleness-aware), Zheng et al. 2017 (dc-asgd).

correct(name, values, at, g, staleness, b) returns the gradient for values[at].  values: the whole part of the variable
that the owner keeps.  at: indices of rows, or ... for all.  staleness: τ, of shape (k, 1) for rows and () for all.
"""

import numpy as np


class Uncorrected:
    """A gradient is applied without a change. workers: N."""

    def __init__(self, workers):
        self.workers = workers

    def __call__(self, name, values, at, g, staleness, b):
        """Return g."""
        return g


class StalenessAware(Uncorrected):
    """The learning rate becomes η / τ. This needs an optimizer whose step is proportional to the gradient."""

    def __call__(self, name, values, at, g, staleness, b):
        """Return g / max(1, τ)."""
        return g / np.maximum(1, staleness).astype(g.dtype)


class DelayCompensated(Uncorrected):
    """An estimate, to first order, of the gradient at the current values. lam: λ."""

    def __init__(self, workers, lam=0.04):
        super().__init__(workers)
        self.lam = lam

    def __call__(self, name, values, at, g, staleness, b):
        """Return g + λ G ⊙ g ⊙ (w - b)."""
        own = values.dtype.type(self.workers) * g
        return g + self.strength(name, values, at, own) * own * g * (values[at] - b)

    def strength(self, name, values, at, own):
        """Return λ, in the values' dtype. own: G."""
        return values.dtype.type(self.lam)


class Adaptive(DelayCompensated):
    """λ is smaller where gradients are large. MS begins with 0; a row of MS changes when the row has a gradient."""

    def __init__(self, workers, lam=2.0, m=0.95, epsilon=1e-7):
        super().__init__(workers, lam)
        self.m, self.epsilon, self.mean_squares = m, epsilon, {}

    def strength(self, name, values, at, own):
        """Update MS, then return λ / sqrt(MS + ε)."""
        scalar, squares = values.dtype.type, self.mean_squares.setdefault(name, np.zeros_like(values))
        squares[at] = scalar(self.m) * squares[at] + scalar(1 - self.m) * (own * own)
        return scalar(self.lam) / np.sqrt(squares[at] + scalar(self.epsilon))


CORRECTIONS = {"none": Uncorrected, "staleness-aware": StalenessAware, "dc-asgd": DelayCompensated,
               "dc-asgd-adaptive": Adaptive}


def check(name, optimizer):
    """Raise ValueError for an unknown correction, and for an optimizer that the correction does not fit."""
    if name not in CORRECTIONS:
        raise ValueError(f"no correction is called {name!r}: write one of {', '.join(CORRECTIONS)}")
    if name == "staleness-aware" and optimizer not in ("sgd", "momentum"):
        raise ValueError(f"staleness-aware makes gradients smaller, but {optimizer} takes steps that hardly depend on "
                         "their size: take sgd or momentum, or the correction dc-asgd")
