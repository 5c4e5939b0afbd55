"""Steps along the gradient, or along a velocity. The formulas of all optimizers are in ``optimizers``."""

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
        """Update p[at] and its state in place by the gradient g. at: indices of rows, or ... for all. t: from 1.

        ``self.decay`` is for the conformance suite. A training's decay comes before this call (``clipping.Optimizer``).
        """
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
    """Sutskever et al. 2013, as PyTorch writes it. The step takes the velocity as if g had entered it once more."""

    def step(self, v, g, rate):
        """Return what is subtracted."""
        return rate * (g + self.mu * v)
