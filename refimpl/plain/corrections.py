"""What a stale gradient is corrected by: g was computed from old values, b; the values are w by now.

    none                g                                     as it came
    staleness-aware     g / max(1, τ)                         τ: the updates of this row since the worker pulled it
    dc-asgd             g + λ G ⊙ g ⊙ (w - b),  G = N g       delay compensation: G ⊙ G stands for the Hessian
    dc-asgd-adaptive    the same with λ / sqrt(MS + ε),  MS = m MS + (1 - m) G ⊙ G

g: a worker's part of the mean over N workers' examples, of one variable: whole, or the rows that it touches. G: the
mean over its own; N times the third line is the paper's, G + λ G ⊙ G ⊙ (w - b). Each line is computed
element by element from left to right, ((λ G) g) (w - b), every operation rounded to the dtype of the values. Statistics
of a model (``models.Variable``) are not corrected. Sources: Zhang et al. 2016 (staleness-aware), Zheng et al. 2017.

A correction is called as correct(name, values, at, g, staleness, b), and returns the gradient for values[at].
values: all that the owner keeps of the variable.  at: indices of rows, or ... for all.  staleness: τ, (k, 1) for rows,
() for all.
"""

import numpy as np


class Uncorrected:
    """A gradient is applied as it came. workers: N."""

    def __init__(self, workers):
        self.workers = workers

    def __call__(self, name, values, at, g, staleness, b):
        """Return g."""
        return g


class StalenessAware(Uncorrected):
    """As if the learning rate were η / τ: with an optimizer whose steps grow with the gradient, sgd or momentum."""

    def __call__(self, name, values, at, g, staleness, b):
        """Return g / max(1, τ)."""
        return g / np.maximum(1, staleness).astype(g.dtype)


class DelayCompensated(Uncorrected):
    """What the gradient would be now, to first order. lam: λ."""

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
    """λ smaller where gradients are large. MS begins with 0; of a row it is moved when the row has a gradient."""

    def __init__(self, workers, lam=2.0, m=0.95, epsilon=1e-7):
        super().__init__(workers, lam)
        self.m, self.epsilon, self.mean_squares = m, epsilon, {}

    def strength(self, name, values, at, own):
        """Return λ / sqrt(MS + ε), after the step of MS."""
        scalar, squares = values.dtype.type, self.mean_squares.setdefault(name, np.zeros_like(values))
        squares[at] = scalar(self.m) * squares[at] + scalar(1 - self.m) * (own * own)
        return scalar(self.lam) / np.sqrt(squares[at] + scalar(self.epsilon))


CORRECTIONS = {"none": Uncorrected, "staleness-aware": StalenessAware, "dc-asgd": DelayCompensated,
               "dc-asgd-adaptive": Adaptive}


def check(name, optimizer):
    """Raise ValueError, with what to write, for an unknown correction or an optimizer it does not fit."""
    if name not in CORRECTIONS:
        raise ValueError(f"no correction is called {name!r}: write one of {', '.join(CORRECTIONS)}")
    if name == "staleness-aware" and optimizer not in ("sgd", "momentum"):
        raise ValueError(f"staleness-aware scales gradients, which {optimizer} hardly heeds: take sgd or momentum, "
                         "or the correction dc-asgd")
