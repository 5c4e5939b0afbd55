"""Clipping and update: all ranks agree on one global norm, then each rank updates the values that it keeps.

    norm = sqrt(Σ g²)  over all variables          g = g · min(1, clip_norm / norm)

The squares within a row are added up in one fixed order. The sums of the rows are added up exactly and rounded once
(math.fsum). So the norm is the same number wherever the rows are kept. The optimizer updates only the rows that have a
gradient.

A *statistic* is a variable that is not trained, such as the mean that batch normalisation keeps (in PyTorch: a buffer).
Its "gradient" is an estimate of its value from this step, and the value moves a fixed part of the way towards it.
"""

import math

import numpy as np

from kernels.reductions.definition import sum_of_squares_per_row
from kernels.update.rates import rate_of
from refimpl.plain.updating.optimizers import OPTIMIZERS


def exact_sum(messages, numbers):
    """Return the exact sum of the numbers of all ranks, rounded once. Collective."""
    return math.fsum(np.concatenate(messages.gather(np.array(numbers, np.float64), "norm")))


def squares(variables, sums):
    """Return Σ g² of each row of the summed gradients. sums: name -> (places, gradient).

    Statistics are left out, and variables that the model excludes from clipping (``clipped``).
    """
    found = []
    for v in variables:
        _, gradient = sums[v.name]
        if v.clipped and not v.statistic and gradient.size:
            rows = len(gradient) if gradient.ndim else 1  # a scalar counts as one row
            found.extend(sum_of_squares_per_row(gradient.reshape(rows, -1)))
    return found


class Optimizer:
    """Updates the values that this rank keeps. options: see ``hybrid.Options``.

    values: {name: array}, updated in place.  state: {name: {slot: array}}, for instance the momentum of a variable.
    """

    rules = OPTIMIZERS

    def __init__(self, variables, values, options):
        self.variables, self.values, self.options = variables, values, options
        self.rule = self.rules[options.optimizer](**options.optimizer_options)
        self.state = {v.name: {} if v.statistic else self.rule.state(values[v.name]) for v in variables}

    def update(self, step, sums, norm=0.0, microbatches=1):
        """Do one step. step: the number of steps done before.  sums: {name: (places, gradient)}.

        places: the rows of values[name] to which the rows of a sparse gradient belong; None for a dense gradient.
        """
        o = self.options
        clip = o.clip_norm / norm if o.clip_norm is not None and norm > o.clip_norm else 1.0
        for v in self.variables:
            values, (places, gradient) = self.values[v.name], sums[v.name]
            if v.statistic:  # its gradient is an estimate of its value
                values += values.dtype.type(v.rate_in(o)) * (gradient - values)
            else:
                rate = rate_of(step, base=v.rate_in(o), rate=o.rate, warmup=o.warmup, steps=o.rate_steps)
                scale = clip if v.clipped else 1.0
                if v.sparse and not o.average_sparse:  # gradients add up to a mean: make it a sum over the microbatches
                    scale *= microbatches
                self.apply(v, places if v.sparse else ..., gradient, scale, rate, step + 1)

    def apply(self, v, at, gradient, scale, rate, t):
        """Update what this rank keeps of a variable. at: indices of rows, or ... for all.  t: from 1."""
        if gradient.size:
            values = self.values[v.name]
            g = gradient * values.dtype.type(scale)
            if decay := v.decay_in(self.options):
                values[at], g = self.rule.decayed(values[at], g, rate, decay)
            self.rule.apply(values, self.state[v.name], at, g, rate, t)
