"""``definition`` on a GPU, except for rounding: one launch each. Sums over units are float64, rounded at the end.

Every argument is C-contiguous.
"""

import math

import numpy as np

from kernels.arrays import array_module
from kernels.cuda import each_element, each_row, scalar

LANES = 64


def attention_scores(query, keys, scale, lengths):
    (sentences, time, units), scores = keys.shape, array_module(keys).empty(keys.shape[:2], keys.dtype)
    score(sentences * time, LANES, time, units, query, keys, scale, lengths, scores)
    return scores


def attention_scores_backward(dscores, query, keys, scale, dkeys, dscale):
    (sentences, time, units), dquery = keys.shape, array_module(keys).empty_like(query)
    gradient_of_unit(sentences, units, time, units, scalar(keys, 1), dscores, query, keys, scale, dkeys, dscale,
                     dquery)
    return dquery


def masked_softmax(scores, lengths):
    weights = array_module(scores).empty_like(scores)
    softmax_of_row(1, len(scores), scores.shape[1], scalar(scores, 0), scores, lengths, weights)
    return weights


def masked_softmax_backward(dweights, weights):
    dscores = array_module(weights).empty_like(weights)
    gradient_of_row(1, len(weights), weights.shape[1], scalar(weights, 0), dweights, weights, dscores)
    return dscores


def note_score(row, total, time, units, query, keys, scale, lengths, scores):
    """Write a score."""
    scores[row] = total


@each_row(note_score)
def score(row, lane, lanes, time, units, query, keys, scale, lengths, scores):
    """Return a lane's part of the score of one place, in float64; 0 past the sentence's end."""
    total, sentence = np.float64(0), row // time
    if row - sentence * time < lengths[sentence]:
        for unit in range(lane, units, lanes):
            total += np.float64(math.tanh(query[sentence * units + unit] + keys[row * units + unit]) * scale[unit])
    return total


@each_element
def gradient_of_unit(sentence, unit, time, units, one, dscores, query, keys, scale, dkeys, dscale, dquery):
    """Add a sentence's gradients of one unit of its keys and scale; write the gradient of the unit of query."""
    mine = sentence * units + unit
    to_query, to_scale = one - one, dscale[mine]
    for t in range(time):
        place = sentence * time + t
        out, d = math.tanh(query[mine] + keys[place * units + unit]), dscores[place]
        inner = d * scale[unit] * (one - out * out)
        to_scale += d * out
        to_query += inner
        dkeys[place * units + unit] += inner
    dquery[mine] = to_query
    dscale[mine] = to_scale


@each_element
def softmax_of_row(none, row, time, zero, scores, lengths, weights):
    """Write a sentence's weights."""
    first, length = row * time, lengths[row]
    highest, total = scores[first], zero
    for t in range(first + 1, first + length):
        highest = scores[t] if scores[t] > highest else highest
    for t in range(first, first + length):
        weights[t] = math.exp(scores[t] - highest)
        total += weights[t]
    for t in range(first, first + length):
        weights[t] /= total
    for t in range(first + length, first + time):
        weights[t] = zero


@each_element
def gradient_of_row(none, row, time, zero, dweights, weights, dscores):
    """Write a sentence's gradient with respect to its scores."""
    first, mean = row * time, zero
    for t in range(first, first + time):
        mean += weights[t] * dweights[t]
    for t in range(first, first + time):
        dscores[t] = weights[t] * (dweights[t] - mean)
