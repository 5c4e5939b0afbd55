"""The optimizers' mathematics in plain array code: the oracle. Never optimised.

Every function works in place, element by element, in the dtype of the parameter. Each operation rounds once, in the
order of the line. Scalars are computed in float64 and rounded once to that dtype. Every function first computes the
gradient that the optimizer sees:

    g = scale * gradient                scale: the clip factor, 1 when nothing was clipped
    g = g + decay * parameter           only if decay != 0: weight decay (adamw's is another, see there)

parameter, gradient and the state arrays: one shape, one dtype.  Owners of a variable call them locally.
"""

import math

from kernels.arrays import array_module


def seen_gradient(parameter, gradient, scale, decay):
    """Return g, the gradient that the optimizer sees: clipped, then with weight decay added."""
    scalar = parameter.dtype.type
    g = gradient * scalar(scale)
    return g + scalar(decay) * parameter if decay else g


def sgd(parameter, gradient, rate, *, scale=1.0, decay=0.0):
    """p -= rate * g"""
    scalar = parameter.dtype.type
    parameter -= scalar(rate) * seen_gradient(parameter, gradient, scale, decay)


def momentum(parameter, velocity, gradient, rate, *, mu=0.9, scale=1.0, decay=0.0):
    """v = mu * v + g;  p -= rate * v   (Polyak 1964, in the form of Sutskever et al. 2013 without Nesterov's step)"""
    scalar = parameter.dtype.type
    velocity[...] = scalar(mu) * velocity + seen_gradient(parameter, gradient, scale, decay)
    parameter -= scalar(rate) * velocity


def nesterov(parameter, velocity, gradient, rate, *, mu=0.9, scale=1.0, decay=0.0):
    """v = mu * v + g;  p -= rate * (g + mu * v)   (Sutskever et al. 2013)"""
    scalar = parameter.dtype.type
    g = seen_gradient(parameter, gradient, scale, decay)
    velocity[...] = scalar(mu) * velocity + g
    parameter -= scalar(rate) * (g + scalar(mu) * velocity)


def adagrad(parameter, accumulator, gradient, rate, *, epsilon=0.0, scale=1.0, decay=0.0):
    """a += g * g;  p -= (rate * g) / (sqrt(a) + epsilon)

    Duchi et al. 2011. TensorFlow's form, which the authors use, has epsilon 0 and accumulators that start above 0. With
    epsilon 0, an accumulator of 0 and a gradient of 0 give NaN.
    """
    xp, scalar = array_module(parameter), parameter.dtype.type
    g = seen_gradient(parameter, gradient, scale, decay)
    accumulator += g * g
    parameter -= (scalar(rate) * g) / (xp.sqrt(accumulator) + scalar(epsilon))


def adam_scalars(rate, beta1, beta2, step):
    """Return (rate / (1 - beta1**step), 1 / sqrt(1 - beta2**step)): both bias corrections, in float64."""
    return rate / (1 - beta1**step), 1 / math.sqrt(1 - beta2**step)


def adam(parameter, first, second, gradient, rate, *, step, beta1=0.9, beta2=0.999, epsilon=1e-8, scale=1.0, decay=0.0):
    """Kingma & Ba 2015, algorithm 1. ``step`` counts global steps from 1, also for rows: all rows share one clock.

    m = beta1 * m + (1 - beta1) * g
    v = beta2 * v + (1 - beta2) * (g * g)
    p -= (corrected rate * m) / (sqrt(v) * correction + epsilon)      the two scalars: see ``adam_scalars``
    """
    xp, scalar = array_module(parameter), parameter.dtype.type
    corrected_rate, correction = adam_scalars(rate, beta1, beta2, step)
    g = seen_gradient(parameter, gradient, scale, decay)
    first[...] = scalar(beta1) * first + scalar(1 - beta1) * g
    second[...] = scalar(beta2) * second + scalar(1 - beta2) * (g * g)
    parameter -= (scalar(corrected_rate) * first) / (xp.sqrt(second) * scalar(correction) + scalar(epsilon))


def adamw(parameter, first, second, gradient, rate, *, decay=0.0, **options):
    """p *= 1 - rate * decay, only if decay != 0; then ``adam`` without decay   (Loshchilov & Hutter 2019)"""
    if decay:
        parameter *= parameter.dtype.type(1 - rate * decay)
    adam(parameter, first, second, gradient, rate, **options)


def update_rows(update, table, state, ids, rows, rate, **options):
    """Apply the dense ``update`` only to rows ``ids`` of ``table`` and of each array in ``state``.

    table, state arrays: (R, d).  ids: (k,) int64, unique.  rows: (k, d).
    """
    ids = array_module(table).asarray(ids)
    parameter, slots = table[ids], [array[ids] for array in state]
    update(parameter, *slots, rows, rate, **options)
    table[ids] = parameter
    for array, slot in zip(state, slots):
        array[ids] = slot
