"""The optimizers' updates on a GPU: one pass over memory, a thread an element. Same bits as ``definition``.

A kernel updates rows ``ids`` of 2-D arrays; a dense update is the same kernel on one row. Every operation rounds once,
as in the definition (see ``kernels.cuda.ptx``), and every scalar arrives in the dtype of the parameter.
"""

import functools
import math
from operator import itemgetter

from kernels.arrays import array_module
from kernels.cuda import each_element, each_of_many, helper, scalar
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


def sgd_each(items, rate):
    """Update several dense variables: (parameter, state arrays, gradient, scale, decay) of each. So the others."""
    sgd_of_many(_many(items), *_scalars(items[0][0], rate))


def momentum_each(items, rate, *, mu):
    momentum_of_many(_many(items), *_scalars(items[0][0], rate, mu))


def adagrad_each(items, rate, *, epsilon):
    adagrad_of_many(_many(items), *_scalars(items[0][0], rate, epsilon))


def adam_each(items, rate, *, step, beta1, beta2, epsilon):
    corrected_rate, correction = adam_scalars(rate, beta1, beta2, step)
    adam_of_many(_many(items), *_scalars(items[0][0], beta1, 1 - beta1, beta2, 1 - beta2, corrected_rate, correction,
                                         epsilon))


def move_each(pairs, rate):
    """Move several statistics towards their estimates."""
    items = [(value.size, value, estimate) for value, estimate in pairs]
    move_of_many(sorted(items, key=itemgetter(0), reverse=True), *_scalars(pairs[0][0], rate))


EACH = {"sgd": sgd_each, "momentum": momentum_each, "adagrad": adagrad_each, "adam": adam_each}


def _many(items):
    real = items[0][0].dtype.type
    return sorted([(gradient.size, parameter, *slots, gradient, real(scale), real(decay), int(decay != 0))
                   for parameter, slots, gradient, scale, decay in items], key=itemgetter(0), reverse=True)


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


@helper
def sgd_at(at, parameters, gradient, rate, scale, decay, decays):
    """See ``definition.sgd``, of the element at a place; so the others."""
    parameters[at] -= rate * seen_gradient(parameters[at], gradient, scale, decay, decays)


@helper
def momentum_at(at, parameters, velocities, gradient, rate, mu, scale, decay, decays):
    v = mu * velocities[at] + seen_gradient(parameters[at], gradient, scale, decay, decays)
    velocities[at] = v
    parameters[at] -= rate * v


@helper
def adagrad_at(at, parameters, accumulators, gradient, rate, epsilon, scale, decay, decays):
    g = seen_gradient(parameters[at], gradient, scale, decay, decays)
    a = accumulators[at] + g * g
    accumulators[at] = a
    parameters[at] -= (rate * g) / (math.sqrt(a) + epsilon)


@helper
def adam_at(at, parameters, firsts, seconds, gradient, beta1, rest1, beta2, rest2, rate, correction, epsilon, scale,
            decay, decays):
    g = seen_gradient(parameters[at], gradient, scale, decay, decays)
    m = beta1 * firsts[at] + rest1 * g
    v = beta2 * seconds[at] + rest2 * (g * g)
    firsts[at] = m
    seconds[at] = v
    parameters[at] -= (rate * m) / (math.sqrt(v) * correction + epsilon)


@each_element
def _sgd(row, column, width, ids, parameters, gradients, rate, scale, decay, decays):
    sgd_at(ids[row] * width + column, parameters, gradients[row * width + column], rate, scale, decay, decays)


@each_element
def _momentum(row, column, width, ids, parameters, velocities, gradients, rate, mu, scale, decay, decays):
    at = ids[row] * width + column
    momentum_at(at, parameters, velocities, gradients[row * width + column], rate, mu, scale, decay, decays)


@each_element
def _adagrad(row, column, width, ids, parameters, accumulators, gradients, rate, epsilon, scale, decay, decays):
    at = ids[row] * width + column
    adagrad_at(at, parameters, accumulators, gradients[row * width + column], rate, epsilon, scale, decay, decays)


@each_element
def _adam(row, column, width, ids, parameters, firsts, seconds, gradients, beta1, rest1, beta2, rest2, rate, correction,
          epsilon, scale, decay, decays):
    at = ids[row] * width + column
    adam_at(at, parameters, firsts, seconds, gradients[row * width + column], beta1, rest1, beta2, rest2, rate,
            correction, epsilon, scale, decay, decays)


@each_of_many(own=5)
def sgd_of_many(number, place, parameters, gradients, scale, decay, decays, rate):
    """Update an element of a dense variable; so the others."""
    sgd_at(place, parameters, gradients[place], rate, scale, decay, decays)


@each_of_many(own=6)
def momentum_of_many(number, place, parameters, velocities, gradients, scale, decay, decays, rate, mu):
    momentum_at(place, parameters, velocities, gradients[place], rate, mu, scale, decay, decays)


@each_of_many(own=6)
def adagrad_of_many(number, place, parameters, accumulators, gradients, scale, decay, decays, rate, epsilon):
    adagrad_at(place, parameters, accumulators, gradients[place], rate, epsilon, scale, decay, decays)


@each_of_many(own=7)
def adam_of_many(number, place, parameters, firsts, seconds, gradients, scale, decay, decays, beta1, rest1, beta2,
                 rest2, rate, correction, epsilon):
    adam_at(place, parameters, firsts, seconds, gradients[place], beta1, rest1, beta2, rest2, rate, correction, epsilon,
            scale, decay, decays)


@each_of_many(own=2)
def move_of_many(number, place, values, estimates, rate):
    """Move a statistic towards its estimate."""
    values[place] += rate * (estimates[place] - values[place])
