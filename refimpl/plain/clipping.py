"""Clipping and update, whichever way a gradient came: one global norm, then each rank updates what it keeps.

    norm = sqrt(Σ g²)  over all variables          g = g · min(1, clip_norm / norm)

The squares of a row are added up in one fixed order, and the rows' sums exactly, rounded once at the end (math.fsum):
so the norm is the same number however rows are dealt out. The optimizer touches only rows that have a gradient.
"""

import math

import numpy as np

from kernels.reductions.definition import sum_of_squares_per_row
from kernels.update import OPTIMIZERS, initial_state
from kernels.update.definition import update_rows
from kernels.update.rates import rate_of
from models import STATISTIC_RATE


def exact_sum(messages, numbers):
    """Return the sum of all ranks' numbers, rounded once. Collective."""
    return math.fsum(np.concatenate(messages.gather(np.array(numbers, np.float64), "norm")))


def squares(variables, sums):
    """Return Σ g² of each row of the summed gradients that count in the norm. sums: name -> (places, gradient)."""
    found = []
    for v in variables:
        _, gradient = sums[v.name]
        if v.clipped and not v.statistic and gradient.size:
            found.extend(sum_of_squares_per_row(gradient.reshape(len(gradient) if gradient.ndim else 1, -1)))
    return found


class Optimizer:
    """Updates what this rank keeps. options: see ``hybrid.Options``.  values: name -> array, updated in place.

    state: name -> what the optimizer keeps beside the values, {slot: array}.
    """

    def __init__(self, variables, values, options):
        self.variables, self.values, self.options = variables, values, options
        self.state = {v.name: {} if v.statistic else initial_state(options.optimizer, values[v.name])
                      for v in variables}

    def update(self, step, sums, norm, microbatches):
        """Do one step. step: how many were done before.  sums: name -> (places in values, None: all; gradient)."""
        o, optimizer = self.options, OPTIMIZERS[self.options.optimizer]
        rate = rate_of(step, base=o.learning_rate, rate=o.rate, warmup=o.warmup, steps=o.rate_steps)
        clip = o.clip_norm / norm if o.clip_norm is not None and norm > o.clip_norm else 1.0
        for v in self.variables:
            values, state, (places, gradient) = self.values[v.name], self.state[v.name].values(), sums[v.name]
            scale = clip if v.clipped else 1.0
            if v.sparse and not o.average_sparse:
                scale *= microbatches
            settings = {**optimizer.options, **o.optimizer_options, "scale": scale,
                        "decay": o.weight_decay if v.decays else 0.0}
            if o.optimizer == "adam":
                settings["step"] = step + 1
            if v.statistic:
                values += values.dtype.type(STATISTIC_RATE) * (gradient - values)
            elif v.sparse:
                update_rows(optimizer.define, values, state, places, gradient, rate, **settings)
            elif gradient.size:
                optimizer.define(values, *state, gradient, rate, **settings)
