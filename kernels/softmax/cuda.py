"""The middle of sampled softmax on a GPU: two launches. The second finds a row that the first has read in the cache.

exp is CUDA's, and sums are float64's, rounded at the end: not NumPy's bits.
"""

import math

import numpy as np

from kernels.arrays import array_module
from kernels.cuda import each_row

LANES = 256


def exponentials(logits, biases, own):
    """See ``definition.exponentials``; every argument is C-contiguous."""
    xp, (examples, candidates) = array_module(logits), logits.shape
    highest, total = xp.empty_like(own), xp.empty_like(own)
    highest_of_row(examples, LANES, candidates, logits, biases, own, highest)
    sum_of_exponentials(examples, LANES, candidates, logits, biases, own, highest, total)
    return total


def note_highest(row, largest, candidates, logits, biases, own, highest):
    """Write the highest of the candidates' logits and the target's own."""
    highest[row] = largest if largest > own[row] else own[row]


@each_row(note_highest, fold="max")
def highest_of_row(row, lane, lanes, candidates, logits, biases, own, highest):
    """Return the highest logit of a lane."""
    largest = -np.inf
    for candidate in range(lane, candidates, lanes):
        logit = np.float64(logits[row * candidates + candidate] + biases[candidate])
        largest = logit if logit > largest else largest
    return largest


def note_total(row, total, candidates, logits, biases, own, highest, totals):
    """Write the target's own logit relative to the highest, and the sum of all exponentials."""
    own[row] -= highest[row]
    totals[row] = total + math.exp(own[row])


@each_row(note_total)
def sum_of_exponentials(row, lane, lanes, candidates, logits, biases, own, highest, totals):
    """Replace a lane's logits by their exponentials relative to the highest; return their sum."""
    total = np.float64(0)
    for candidate in range(lane, candidates, lanes):
        at = row * candidates + candidate
        value = math.exp((logits[at] + biases[candidate]) - highest[row])
        logits[at] = value
        total += value
    return total
