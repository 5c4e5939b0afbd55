"""The optimizers' updates in Numba: one pass over memory. Same bits as ``definition``.

A kernel updates rows ``ids`` of 2-D arrays; a dense update is the same kernel over all rows. Every scalar arrives in
the dtype of the parameter, because Numba, unlike NumPy, would compute float32 * float64 in float64.
"""

import math

import numpy as np

from kernels.compiled import compiled
from kernels.update.definition import adam_scalars


def sgd(table, ids, rows, rate, *, scale, decay):
    """See ``definition.sgd``."""
    _sgd(table, ids, rows, *_scalars(table, rate, scale, decay), decay != 0)


def momentum(table, velocity, ids, rows, rate, *, mu, scale, decay):
    """See ``definition.momentum``."""
    _momentum(table, velocity, ids, rows, *_scalars(table, rate, mu, scale, decay), decay != 0)


def adagrad(table, accumulator, ids, rows, rate, *, epsilon, scale, decay):
    """See ``definition.adagrad``."""
    _adagrad(table, accumulator, ids, rows, *_scalars(table, rate, epsilon, scale, decay), decay != 0)


def adam(table, first, second, ids, rows, rate, *, step, beta1, beta2, epsilon, scale, decay):
    """See ``definition.adam``."""
    corrected_rate, correction = adam_scalars(rate, beta1, beta2, step)
    moments = _scalars(table, beta1, 1 - beta1, beta2, 1 - beta2)
    scalars = _scalars(table, corrected_rate, correction, epsilon, scale, decay)
    _adam(table, first, second, ids, rows, *moments, *scalars, decay != 0)


def _scalars(table, *values):
    return [table.dtype.type(value) for value in values]


@compiled(inline="always")
def _seen_gradient(parameter, gradient, scale, decay, decays):
    g = gradient * scale
    return g + decay * parameter if decays else g


@compiled
def _sgd(table, ids, rows, rate, scale, decay, decays):
    for k in range(len(ids)):
        parameters, gradients = table[ids[k]], rows[k]
        for c in range(len(gradients)):
            parameters[c] -= rate * _seen_gradient(parameters[c], gradients[c], scale, decay, decays)


@compiled
def _momentum(table, velocity, ids, rows, rate, mu, scale, decay, decays):
    for k in range(len(ids)):
        parameters, velocities, gradients = table[ids[k]], velocity[ids[k]], rows[k]
        for c in range(len(gradients)):
            v = mu * velocities[c] + _seen_gradient(parameters[c], gradients[c], scale, decay, decays)
            velocities[c] = v
            parameters[c] -= rate * v


@compiled
def _adagrad(table, accumulator, ids, rows, rate, epsilon, scale, decay, decays):
    for k in range(len(ids)):
        parameters, accumulators, gradients = table[ids[k]], accumulator[ids[k]], rows[k]
        for c in range(len(gradients)):
            g = _seen_gradient(parameters[c], gradients[c], scale, decay, decays)
            a = accumulators[c] + g * g
            accumulators[c] = a
            parameters[c] -= (rate * g) / (math.sqrt(a) + epsilon)


@compiled
def _adam(
    table, first, second, ids, rows, beta1, rest1, beta2, rest2, rate, correction, epsilon, scale, decay, decays
):
    for k in range(len(ids)):
        parameters, firsts, seconds, gradients = table[ids[k]], first[ids[k]], second[ids[k]], rows[k]
        for c in range(len(gradients)):
            g = _seen_gradient(parameters[c], gradients[c], scale, decay, decays)
            m = beta1 * firsts[c] + rest1 * g
            v = beta2 * seconds[c] + rest2 * (g * g)
            firsts[c], seconds[c] = m, v
            parameters[c] -= (rate * m) / (math.sqrt(v) * correction + epsilon)
