"""Optimizers that other frameworks write in another way, with the line that differs. The conformance suite uses them.

    adam-hat         p -= (rate sqrt(1 - beta2^t) / (1 - beta1^t) m) / (sqrt(v) + epsilon)     TensorFlow
    adagrad-inside   a += g g;                         p -= (rate g) / sqrt(a + epsilon)       optax, Keras
    dampened         v = mu v + (1 - dampening) g;     p -= rate v                             PyTorch; first v = g
"""

import math

import numpy as np

from refimpl.plain.updating.optimizers import OPTIMIZERS, Adagrad, Adam, Momentum


class AdamHat(Adam):
    """Epsilon is added to the root of v, and this root is not corrected."""

    def step(self, m, v, g, rate, c1, c2):
        """Return what is subtracted."""
        return (rate / c1 / (1 / math.sqrt(c2)) * m) / (np.sqrt(v) + self.epsilon)


class AdagradInside(Adagrad):
    """Epsilon is added to the sum of squares, inside the root."""

    def step(self, a, g, rate):
        """Return what is subtracted."""
        return (rate * g) / np.sqrt(a + self.epsilon)


class Dampened(Momentum):
    """Momentum with PyTorch's dampening, which the first gradient does not have."""

    def __init__(self, mu=0.9, dampening=0.0, decay=0.0):
        super().__init__(mu, decay)
        self.dampening = dampening

    def update(self, p, state, g, rate, t):
        """Update the velocity, then the parameter."""
        super().update(p, state, self.dampened(g, t), rate, t)

    def dampened(self, g, t):
        """Return what enters the velocity."""
        return g if t == 1 else (1 - self.dampening) * g


EVERY = {**OPTIMIZERS, "adam-hat": AdamHat, "adagrad-inside": AdagradInside, "dampened": Dampened}
"""Name -> class, of all optimizers."""
