"""Large batches: each variable moves in proportion to its own norm.

    LARS   ratio = trust ‖w‖ / (‖g‖ + decay ‖w‖);      v = mu v + ratio (g + decay w);      w -= rate v
    LAMB   u = m / (sqrt(v) + epsilon) + decay w;      ratio = ‖w‖ / ‖u‖;                   w -= rate ratio u
           m, v: Adam's moments of g, corrected because they start at 0

With the ratio, the length of a step depends on the variable's norm, and hardly on the norm of the gradient. ``trust``
is a constant: without momentum and decay, a step of LARS is rate · trust times as long as the variable's norm. The
ratio is 1 if a norm is 0, and for variables without weight decay (biases). The norms of a sparse variable include only
rows that have a gradient. Squares are added up exactly over all ranks, as in ``clipping``.
"""

import math

import numpy as np

from kernels.reductions.definition import sum_of_squares_per_row
from refimpl.plain.updating.clipping import Optimizer, exact_sum
from refimpl.plain.updating.optimizers import Adam, Momentum


class LARS(Momentum):
    """You, Gitman, Ginsburg 2017: momentum, where each gradient is multiplied by a ratio."""

    def __init__(self, mu=0.9, trust=0.001):
        super().__init__(mu)
        self.trust = trust

    def measured(self, p, state, g, scale, decay, t):
        """Return the array whose norm is in the ratio's denominator: g. scale: clipping's factor, not yet in g."""
        return g

    def move(self, p, state, g, norms, scale, decay, rate, t):
        """Update p by momentum with ratio (scale g + decay p). norms: of p and of g over all ranks."""
        ratio = self.trust * norms[0] / (scale * norms[1] + decay * norms[0]) if all(norms) else 1.0
        g = g * p.dtype.type(scale * ratio)
        self.update(p, state, g + p.dtype.type(decay * ratio) * p if decay else g, rate, t)


class LAMB(Adam):
    """You et al. 2020: Adam, where each step is multiplied by a ratio."""

    def __init__(self, beta1=0.9, beta2=0.999, epsilon=1e-6):
        super().__init__(beta1, beta2, epsilon)

    def measured(self, p, state, g, scale, decay, t):
        """Update both moments; return the array whose norm is in the ratio's denominator: u, with weight decay."""
        m, v, g = state["first"], state["second"], g * p.dtype.type(scale)
        m[...], v[...] = self.first(m, g), self.second(v, g)
        u = self.step(m, v, g, 1.0, *self.corrections(t))
        return u + p.dtype.type(decay) * p if decay else u

    def move(self, p, state, u, norms, scale, decay, rate, t):
        """Step along the direction u. norms: of p and of u over all ranks."""
        p -= rate * (u * p.dtype.type(norms[0] / norms[1] if all(norms) else 1.0))


LAYERWISE = {"lars": LARS, "lamb": LAMB}


class Layerwise(Optimizer):
    """An ``Optimizer`` whose ranks compute norms together. counted: names of the variables that this rank counts."""

    rules = LAYERWISE

    def __init__(self, variables, values, options, messages, counted):
        super().__init__(variables, values, options)
        self.messages, self.counted = messages, counted

    def apply(self, v, at, gradient, scale, rate, t):
        """Update the part of a variable that this rank has a gradient for. Collective, also without a gradient."""
        p, decay = self.values[v.name][at], v.decay_in(self.options)
        state = {slot: array[at] for slot, array in self.state[v.name].items()}
        other = self.rule.measured(p, state, gradient, scale, decay, t)
        norms = [self.norm(v, x) for x in (p, other)] if v.decays else (0, 0)
        self.rule.move(p, state, other, norms, scale, decay, rate, t)
        self.values[v.name][at] = p
        for slot, array in state.items():
            self.state[v.name][slot][at] = array

    def norm(self, v, x):
        """Return the norm of an array over all ranks. x: this rank's part of it. Collective."""
        rows = x.reshape(len(x) if x.ndim else 1, -1) if v.name in self.counted and x.size else np.empty((0, 1))
        return math.sqrt(exact_sum(self.messages, sum_of_squares_per_row(rows)))
