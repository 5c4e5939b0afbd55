"""The optimizers' updates on a GPU: one pass over memory, one thread for each element. Same bits as ``definition``.

``NAME_rows`` updates rows ``ids`` of 2-D arrays, ``NAME_each`` several whole arrays. Every operation rounds once, as in
the definition (see ``kernels.cuda.ptx``), and every scalar arrives in the dtype of the parameter.
"""

import math

from kernels.cuda import each_element, each_of_many, helper


@helper
def seen_gradient(parameter, gradient, scale, decay, decays):
    g = gradient * scale
    return g + decay * parameter if decays == 1 else g


@helper
def sgd_at(at, parameters, gradient, rate, scale, decay, decays):
    """See ``definition.sgd``: update the element at a place."""
    parameters[at] -= rate * seen_gradient(parameters[at], gradient, scale, decay, decays)


@helper
def momentum_at(at, parameters, velocities, gradient, rate, mu, ahead, scale, decay, decays):
    """See ``definition.momentum``, or, if ahead is not 0, ``nesterov``: update the element at a place."""
    g = seen_gradient(parameters[at], gradient, scale, decay, decays)
    v = mu * velocities[at] + g
    velocities[at] = v
    parameters[at] -= rate * (g + mu * v) if ahead != 0 else rate * v


@helper
def adagrad_at(at, parameters, accumulators, gradient, rate, epsilon, scale, decay, decays):
    """See ``definition.adagrad``: update the element at a place."""
    g = seen_gradient(parameters[at], gradient, scale, decay, decays)
    a = accumulators[at] + g * g
    accumulators[at] = a
    parameters[at] -= (rate * g) / (math.sqrt(a) + epsilon)


@helper
def adam_at(at, parameters, firsts, seconds, gradient, beta1, rest1, beta2, rest2, rate, correction, epsilon, scale,
            decay, decays):
    """See ``definition.adam`` and ``adamw``: update the element at a place."""
    g = seen_gradient(parameters[at], gradient, scale, decay, decays)
    m = beta1 * firsts[at] + rest1 * g
    v = beta2 * seconds[at] + rest2 * (g * g)
    firsts[at] = m
    seconds[at] = v
    p = parameters[at] * decay if decays == 2 else parameters[at]
    parameters[at] = p - (rate * m) / (math.sqrt(v) * correction + epsilon)


@each_element
def sgd_rows(row, column, width, ids, parameters, gradients, rate, scale, decay, decays):
    """Update an element of a row; see ``definition.sgd``."""
    sgd_at(ids[row] * width + column, parameters, gradients[row * width + column], rate, scale, decay, decays)


@each_element
def momentum_rows(row, column, width, ids, parameters, velocities, gradients, rate, mu, ahead, scale, decay, decays):
    """Update an element of a row; see ``definition.momentum``."""
    at = ids[row] * width + column
    momentum_at(at, parameters, velocities, gradients[row * width + column], rate, mu, ahead, scale, decay, decays)


@each_element
def adagrad_rows(row, column, width, ids, parameters, accumulators, gradients, rate, epsilon, scale, decay, decays):
    """Update an element of a row; see ``definition.adagrad``."""
    at = ids[row] * width + column
    adagrad_at(at, parameters, accumulators, gradients[row * width + column], rate, epsilon, scale, decay, decays)


@each_element
def adam_rows(row, column, width, ids, parameters, firsts, seconds, gradients, beta1, rest1, beta2, rest2, rate,
              correction, epsilon, scale, decay, decays):
    """Update an element of a row; see ``definition.adam``."""
    at = ids[row] * width + column
    adam_at(at, parameters, firsts, seconds, gradients[row * width + column], beta1, rest1, beta2, rest2, rate,
            correction, epsilon, scale, decay, decays)


@each_of_many(own=5)
def sgd_each(place, parameters, gradients, scale, decay, decays, rate):
    """Update an element of an array; see ``definition.sgd``."""
    sgd_at(place, parameters, gradients[place], rate, scale, decay, decays)


@each_of_many(own=6)
def momentum_each(place, parameters, velocities, gradients, scale, decay, decays, rate, mu, ahead):
    """Update an element of an array; see ``definition.momentum``."""
    momentum_at(place, parameters, velocities, gradients[place], rate, mu, ahead, scale, decay, decays)


@each_of_many(own=6)
def adagrad_each(place, parameters, accumulators, gradients, scale, decay, decays, rate, epsilon):
    """Update an element of an array; see ``definition.adagrad``."""
    adagrad_at(place, parameters, accumulators, gradients[place], rate, epsilon, scale, decay, decays)


@each_of_many(own=7)
def adam_each(place, parameters, firsts, seconds, gradients, scale, decay, decays, beta1, rest1, beta2, rest2,
              rate, correction, epsilon):
    """Update an element of an array; see ``definition.adam``."""
    adam_at(place, parameters, firsts, seconds, gradients[place], beta1, rest1, beta2, rest2, rate, correction, epsilon,
            scale, decay, decays)


@each_of_many(own=2)
def move_each(place, values, estimates, rate):
    """Move a statistic towards its estimate."""
    values[place] += rate * (estimates[place] - values[place])
