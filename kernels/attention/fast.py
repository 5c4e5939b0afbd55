"""``definition`` in Numba. It computes nothing past a sentence's end and makes no array (sentences, time, units).

tanh is that of ``kernels.lstm.activations``, exp is NumPy's. Sums over units are added up by halves.
"""

import math

import numpy as np

from kernels.compiled import compiled
from kernels.lstm.activations import tanh


def attention_scores(query, keys, scale, lengths):
    scores = np.zeros(keys.shape[:2], keys.dtype)
    _scores(query, keys, scale, lengths, np.empty_like(scale), scores)
    return scores


def attention_scores_backward(dscores, query, keys, scale, dkeys, dscale):
    dquery = np.zeros_like(query)
    _scores_backward(dscores, query, keys, scale, np.empty_like(scale), dkeys, dscale, dquery)
    return dquery


def masked_softmax(scores, lengths):
    weights = np.zeros_like(scores)
    _masked_softmax(scores, lengths, weights)
    return weights


def masked_softmax_backward(dweights, weights):
    dscores = np.empty_like(weights)
    _masked_softmax_backward(dweights, weights, dscores)
    return dscores


@compiled
def _scores(query, keys, scale, lengths, terms, scores):
    """Write the scores. terms: (units,), scratch."""
    for b in range(len(query)):
        of_query = query[b]
        for t in range(lengths[b]):
            of_key = keys[b, t]
            for u in range(len(terms)):
                terms[u] = tanh(of_query[u] + of_key[u]) * scale[u]
            scores[b, t] = sum_by_halves(terms)


@compiled
def sum_by_halves(terms):
    """Return the sum of an array, which it overwrites. It adds the second half to the first, in vector operations."""
    count = len(terms)
    while count > 1:
        half = (count + 1) // 2
        for k in range(count - half):
            terms[k] += terms[half + k]
        count = half
    return terms[0]


@compiled
def _scores_backward(dscores, query, keys, scale, out, dkeys, dscale, dquery):
    """Write dquery, add to dkeys and dscale. out: (units,), scratch."""
    one = scale.dtype.type(1)
    for b in range(len(query)):
        of_query, to_query, to_scale = query[b], dquery[b], dscale[b]
        for t in range(keys.shape[1]):
            d, of_key, to_key = dscores[b, t], keys[b, t], dkeys[b, t]
            if d == 0:  # past the end
                continue
            for u in range(len(out)):
                out[u] = tanh(of_query[u] + of_key[u])
            for u in range(len(out)):
                to_scale[u] += d * out[u]
            for u in range(len(out)):
                out[u] = d * scale[u] * (one - out[u] * out[u])
            for u in range(len(out)):
                to_key[u] += out[u]
            for u in range(len(out)):
                to_query[u] += out[u]


@compiled
def _masked_softmax(scores, lengths, weights):
    """Write the weights."""
    for b in range(len(scores)):
        row, of_row = scores[b, :lengths[b]], weights[b]
        highest = row.max()
        total = scores.dtype.type(0)
        for t in range(len(row)):
            of_row[t] = math.exp(row[t] - highest)
            total += of_row[t]
        for t in range(len(row)):
            of_row[t] /= total


@compiled
def _masked_softmax_backward(dweights, weights, dscores):
    """Write the gradient."""
    for b in range(len(weights)):
        mean = weights.dtype.type(0)
        for t in range(weights.shape[1]):
            mean += weights[b, t] * dweights[b, t]
        for t in range(weights.shape[1]):
            dscores[b, t] = weights[b, t] * (dweights[b, t] - mean)
