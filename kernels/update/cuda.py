"""The optimizers' updates on a GPU: one pass over memory, a thread an element. Same bits as ``definition``.

A kernel updates rows ``ids`` of 2-D arrays; a dense update is the same kernel on one row. Every operation rounds once,
as in the definition (see ``kernels.cuda.ptx``), and every scalar arrives in the dtype of the parameter.
"""

import functools
import math

from kernels.arrays import array_module
from kernels.cuda import each_element, helper, scalar
from kernels.update.definition import adam_scalars


def sgd(table, ids, rows, rate, *, scale, decay):
    """See ``definition.sgd``."""
    scalars = _scalars(table, rate, scale, decay)
    _sgd(*rows.shape, rows.shape[1], ids, table, rows, *scalars, int(decay != 0))


def momentum(table, velocity, ids, rows, rate, *, mu, scale, decay):
    """See ``definition.momentum``."""
    scalars = _scalars(table, rate, mu, scale, decay)
    _momentum(*rows.shape, rows.shape[1], ids, table, velocity, rows, *scalars, int(decay != 0))


def adagrad(table, accumulator, ids, rows, rate, *, epsilon, scale, decay):
    """See ``definition.adagrad``."""
    scalars = _scalars(table, rate, epsilon, scale, decay)
    _adagrad(*rows.shape, rows.shape[1], ids, table, accumulator, rows, *scalars, int(decay != 0))


def adam(table, first, second, ids, rows, rate, *, step, beta1, beta2, epsilon, scale, decay):
    """See ``definition.adam``."""
    corrected_rate, correction = adam_scalars(rate, beta1, beta2, step)
    moments = _scalars(table, beta1, 1 - beta1, beta2, 1 - beta2)
    scalars = _scalars(table, corrected_rate, correction, epsilon, scale, decay)
    _adam(*rows.shape, rows.shape[1], ids, table, first, second, rows, *moments, *scalars, int(decay != 0))


def _scalars(table, *values):
    return [scalar(table, value) for value in values]


def only_row(array):
    """Return the ids of a dense update, on the array's GPU: row 0."""
    return _only_row(array_module(array), array.device.id)


@functools.lru_cache
def _only_row(xp, device):
    return xp.zeros(1, xp.int64)


@helper
def seen_gradient(parameter, gradient, scale, decay, decays):
    """See ``definition.seen_gradient``."""
    g = gradient * scale
    return g + decay * parameter if decays != 0 else g


@each_element
def _sgd(row, column, width, ids, parameters, gradients, rate, scale, decay, decays):
    at = ids[row] * width + column
    g = seen_gradient(parameters[at], gradients[row * width + column], scale, decay, decays)
    parameters[at] -= rate * g


@each_element
def _momentum(row, column, width, ids, parameters, velocities, gradients, rate, mu, scale, decay, decays):
    at = ids[row] * width + column
    g = seen_gradient(parameters[at], gradients[row * width + column], scale, decay, decays)
    v = mu * velocities[at] + g
    velocities[at] = v
    parameters[at] -= rate * v


@each_element
def _adagrad(row, column, width, ids, parameters, accumulators, gradients, rate, epsilon, scale, decay, decays):
    at = ids[row] * width + column
    g = seen_gradient(parameters[at], gradients[row * width + column], scale, decay, decays)
    a = accumulators[at] + g * g
    accumulators[at] = a
    parameters[at] -= (rate * g) / (root(a) + epsilon)


@each_element
def _adam(row, column, width, ids, parameters, firsts, seconds, gradients, beta1, rest1, beta2, rest2, rate, correction,
          epsilon, scale, decay, decays):
    at = ids[row] * width + column
    g = seen_gradient(parameters[at], gradients[row * width + column], scale, decay, decays)
    m = beta1 * firsts[at] + rest1 * g
    v = beta2 * seconds[at] + rest2 * (g * g)
    firsts[at] = m
    seconds[at] = v
    parameters[at] -= (rate * m) / (root(v) * correction + epsilon)


@helper
def root(x):
    """Return the square root in the dtype of x."""
    return math.sqrt(x)
