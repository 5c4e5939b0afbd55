"""The optimizers' updates in Numba: one pass over memory. Same bits as ``definition``.

A kernel updates rows ``ids`` of 2-D arrays. A dense update is the same kernel on one row. Every scalar has the dtype of
the parameter, because Numba, unlike NumPy, would compute float32 * float64 in float64. decays: 0: no weight decay; 1:
it is added to the gradient; 2: decay multiplies the parameter. ahead: 0: momentum; else nesterov.
"""

import math

from kernels.compiled import compiled


@compiled(inline="always")
def _seen_gradient(parameter, gradient, scale, decay, decays):
    g = gradient * scale
    return g + decay * parameter if decays == 1 else g


@compiled
def sgd(table, ids, rows, rate, scale, decay, decays):
    for k in range(len(ids)):
        parameters, gradients = table[ids[k]], rows[k]
        for c in range(len(gradients)):
            parameters[c] -= rate * _seen_gradient(parameters[c], gradients[c], scale, decay, decays)


@compiled
def momentum(table, velocity, ids, rows, rate, mu, ahead, scale, decay, decays):
    for k in range(len(ids)):
        parameters, velocities, gradients = table[ids[k]], velocity[ids[k]], rows[k]
        for c in range(len(gradients)):
            g = _seen_gradient(parameters[c], gradients[c], scale, decay, decays)
            v = mu * velocities[c] + g
            velocities[c] = v
            parameters[c] -= rate * (g + mu * v) if ahead else rate * v


@compiled
def adagrad(table, accumulator, ids, rows, rate, epsilon, scale, decay, decays):
    for k in range(len(ids)):
        parameters, accumulators, gradients = table[ids[k]], accumulator[ids[k]], rows[k]
        for c in range(len(gradients)):
            g = _seen_gradient(parameters[c], gradients[c], scale, decay, decays)
            a = accumulators[c] + g * g
            accumulators[c] = a
            parameters[c] -= (rate * g) / (math.sqrt(a) + epsilon)


@compiled
def adam(table, first, second, ids, rows, beta1, rest1, beta2, rest2, rate, correction, epsilon, scale, decay, decays):
    for k in range(len(ids)):
        parameters, firsts, seconds, gradients = table[ids[k]], first[ids[k]], second[ids[k]], rows[k]
        for c in range(len(gradients)):
            g = _seen_gradient(parameters[c], gradients[c], scale, decay, decays)
            m = beta1 * firsts[c] + rest1 * g
            v = beta2 * seconds[c] + rest2 * (g * g)
            firsts[c], seconds[c] = m, v
            p = parameters[c] * decay if decays == 2 else parameters[c]
            parameters[c] = p - (rate * m) / (math.sqrt(v) * correction + epsilon)
