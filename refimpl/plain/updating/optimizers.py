"""The optimizers, with one method for each line of a formula. All work element by element.

    sgd        p -= rate g
    momentum   v = mu v + g;                       p -= rate v
    nesterov   v = mu v + g;                       p -= rate (g + mu v)
    adagrad    a += g g;                           p -= (rate g) / (sqrt(a) + epsilon)      a starts at ``initial``
    adam       m = beta1 m + (1 - beta1) g;        v = beta2 v + (1 - beta2) (g g)
               p -= (rate / (1 - beta1^t) m) / (sqrt(v) (1 / sqrt(1 - beta2^t)) + epsilon)   t: updates done, from 1
    adamw      p -= rate decay p, then adam

Weight decay adds decay p to g first, except in adamw. Scalars are computed in float64 and rounded once to the dtype of
the parameter. In this dtype each operation rounds once. Rows that are not updated keep their values and their state.
"""

import math

import numpy as np

from refimpl.plain.updating.sgd import SGD, Momentum, Nesterov


class Adagrad(SGD):
    """Duchi et al. 2011. In TensorFlow's form epsilon is 0, and accumulators start above 0."""

    def __init__(self, epsilon=0.0, initial=1.0, decay=0.0):
        self.epsilon, self.slots, self.decay = epsilon, {"accumulator": initial}, decay

    def update(self, p, state, g, rate, t):
        """Update the sum of squares, then the parameter."""
        a = state["accumulator"]
        a[...] = self.accumulator(a, g, rate)
        p -= self.step(a, g, rate)

    def accumulator(self, a, g, rate):
        """Return the new sum of squares."""
        return a + g * g

    def step(self, a, g, rate):
        """Return what is subtracted. a: the new sum of squares."""
        return (rate * g) / (np.sqrt(a) + self.epsilon)


class Adam(SGD):
    """Kingma and Ba 2015, algorithm 1. t is the same for all rows, also for rows that were updated less often."""

    slots = {"first": 0.0, "second": 0.0}

    def __init__(self, beta1=0.9, beta2=0.999, epsilon=1e-8, decay=0.0):
        self.beta1, self.beta2, self.epsilon, self.decay = beta1, beta2, epsilon, decay

    def update(self, p, state, g, rate, t):
        """Update both moments, then the parameter."""
        m, v = state["first"], state["second"]
        m[...], v[...] = self.first(m, g), self.second(v, g)
        p -= self.step(m, v, g, rate, *self.corrections(t))

    def first(self, m, g):
        """Return the new first moment."""
        return self.beta1 * m + (1 - self.beta1) * g

    def second(self, v, g):
        """Return the new second moment."""
        return self.beta2 * v + (1 - self.beta2) * (g * g)

    def corrections(self, t):
        """Return the divisors of the two moments. They correct for moments that start at 0."""
        return 1 - self.beta1**t, 1 - self.beta2**t

    def step(self, m, v, g, rate, c1, c2):
        """Return what is subtracted. m, v: the new moments.  c1, c2: their corrections."""
        return (rate / c1 * m) / (np.sqrt(v) * (1 / math.sqrt(c2)) + self.epsilon)


class AdamW(Adam):
    """Loshchilov and Hutter 2019: weight decay moves the parameter itself, and the moments do not see it."""

    decoupled = True


OPTIMIZERS = {"sgd": SGD, "momentum": Momentum, "nesterov": Nesterov, "adagrad": Adagrad, "adam": Adam,
              "adamw": AdamW}
"""Name -> class. The arguments of the constructor are the numbers in the formulas."""
