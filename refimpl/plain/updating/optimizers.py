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


class SGD:
    """p -= rate g.  slots: {name: first value} of the arrays that the optimizer keeps for a parameter, its state."""

    slots, decoupled = {}, False

    def __init__(self, decay=0.0):
        self.decay = decay

    def state(self, p):
        """Return the state of a parameter before its first update."""
        return {slot: np.full_like(p, value) for slot, value in self.slots.items()}

    def apply(self, p, state, at, g, rate, t):
        """Update p[at] and its state in place by the gradient g. at: indices of rows, or ... for all."""
        part, g = self.decayed(p[at], g, rate, self.decay) if self.decay else (p[at], g)
        kept = {slot: array[at] for slot, array in state.items()}  # copies, if ``at`` has row numbers
        self.update(part, kept, g, rate, t)
        p[at] = part
        for slot, array in kept.items():
            state[slot][at] = array

    def update(self, p, state, g, rate, t):
        """Update all of p. p, g, each array of ``state``: one shape, one dtype.  t: number of the update, from 1."""
        p -= self.step(g, rate)

    def step(self, g, rate):
        """Return what is subtracted."""
        return rate * g

    def decayed(self, p, g, rate, decay):
        """Return (p, g) after weight decay."""
        return (p * (1 - rate * decay), g) if self.decoupled else (p, g + decay * p)


class Momentum(SGD):
    """Polyak 1964, in the form of Sutskever et al. 2013 without Nesterov's step."""

    slots = {"velocity": 0.0}

    def __init__(self, mu=0.9, decay=0.0):
        self.mu, self.decay = mu, decay

    def update(self, p, state, g, rate, t):
        """Update the velocity, then the parameter."""
        v = state["velocity"]
        v[...] = self.velocity(v, g, rate)
        p -= self.step(v, g, rate)

    def velocity(self, v, g, rate):
        """Return the new velocity."""
        return self.mu * v + g

    def step(self, v, g, rate):
        """Return what is subtracted. v: the new velocity."""
        return rate * v


class Nesterov(Momentum):
    """Sutskever et al. 2013, as PyTorch writes it: a step along the velocity that a second update with g would give."""

    def step(self, v, g, rate):
        """Return what is subtracted."""
        return rate * (g + self.mu * v)


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
