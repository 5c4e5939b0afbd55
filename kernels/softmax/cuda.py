"""``definition`` on a GPU, except for rounding: two launches for the large array, one for each other function.

exp is CUDA's, and sums are float64, rounded at the end, so the last bits differ from NumPy's.
"""

import math

import numpy as np

from kernels.arrays import array_module
from kernels.cuda import each_element, each_row, scalar

LANES = 256


def own_logits(hidden, weights, biases):
    own = array_module(hidden).empty_like(biases)
    product_of_rows(len(hidden), LANES, hidden.shape[1], hidden, weights, biases, own)
    return own


def exponentials(logits, biases, own, hit=None):
    """See ``definition.exponentials``; every argument is C-contiguous."""
    xp, (examples, candidates) = array_module(logits), logits.shape
    highest, total = xp.empty_like(own), xp.empty_like(own)
    hit = xp.full(examples, -1, np.int64) if hit is None else hit
    none = scalar(logits, -np.inf)
    highest_of_row(examples, LANES, candidates, none, logits, biases, own, hit, highest)
    sum_of_exponentials(examples, LANES, candidates, none, logits, biases, own, hit, highest, total)
    return total


def shares(total, own, scale):
    xp = array_module(total)
    loss, share, down = (xp.empty_like(total) for _ in range(3))
    share_of_example(1, len(total), total, own, scale, loss, share, down)
    return loss.sum(dtype=np.float64), share, down


def gradients_of_rows(dhidden, hidden, weights, share, down):
    xp, (examples, width) = array_module(hidden), hidden.shape
    own, others = xp.empty_like(hidden), xp.empty_like(hidden)
    gradients_of_row(examples, width, width, dhidden, hidden, weights, share, down, own, others)
    return own, others


def note_product(row, total, width, hidden, weights, biases, own):
    """Write a logit."""
    own[row] = total + biases[row]


@each_row(note_product)
def product_of_rows(row, lane, lanes, width, hidden, weights, biases, own):
    """Return a lane's part of the product of two rows, in float64."""
    total = np.float64(0)
    for column in range(lane, width, lanes):
        total += np.float64(hidden[row * width + column] * weights[row * width + column])
    return total


@each_element
def share_of_example(row, example, total, own, scale, loss, share, down):
    """Write an example's part of the loss, its share, and the gradient of its target's logit."""
    part = scale[example] / total[example]
    loss[example] = (math.log(total[example]) - own[example]) * scale[example]
    share[example] = part
    down[example] = math.exp(own[example]) * part - scale[example]


@each_element
def gradients_of_row(example, column, width, dhidden, hidden, weights, share, down, own, others):
    """Finish an element of dhidden; write an element of both results of ``definition.gradients_of_rows``."""
    at = example * width + column
    h, part, coming = hidden[at], share[example], down[example]
    dhidden[at] = dhidden[at] * part + coming * weights[at]
    own[at] = coming * h
    others[at] = part * h


def note_highest(row, largest, candidates, none, logits, biases, own, hit, highest):
    """Write the highest logit of the candidates and the target."""
    highest[row] = largest if largest > own[row] else own[row]


@each_row(note_highest, fold="max", partial="logits")
def highest_of_row(row, lane, lanes, candidates, none, logits, biases, own, hit, highest):
    """Return the highest logit of a lane."""
    largest = none
    for candidate in range(lane, candidates, lanes):
        logit = logits[row * candidates + candidate] + biases[candidate]
        largest = logit if logit > largest and candidate != hit[row] else largest
    return largest


def note_total(row, total, candidates, none, logits, biases, own, hit, highest, totals):
    """Write the target's logit relative to the highest, and the sum of all exponentials."""
    own[row] -= highest[row]
    totals[row] = total + math.exp(own[row])


@each_row(note_total)
def sum_of_exponentials(row, lane, lanes, candidates, none, logits, biases, own, hit, highest, totals):
    """Replace a lane's logits by their exponentials relative to the highest; return their sum."""
    total = np.float64(0)
    for candidate in range(lane, candidates, lanes):
        at = row * candidates + candidate
        logit = none if candidate == hit[row] else logits[at] + biases[candidate]
        value = math.exp(logit - highest[row])
        logits[at] = value
        total += value
    return total
