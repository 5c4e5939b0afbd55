"""The places of the largest elements by a histogram, in Numba, reading the values twice. Same places as ``definition``.

The bits of positive float32 numbers, read as integers, have the order of the numbers. The first pass counts sizes by
their upper bits. So it is known in which bin the least of the largest is. The second pass takes what is in higher bins,
and sets aside what is in this one; only there must be sorted.
"""

import numpy as np

from kernels.compiled import compiled

SHIFT = 19
"""Lower bits that do not count: 8 bits of exponent and 4 of the fraction do."""
SIZE = np.uint32(2**31 - 1)  # all bits but the sign
FEW = 2**13
"""So few elements are all sorted: to read a histogram takes longer."""
WAYS = 4
"""Histograms in turn: an element need not wait until its neighbour is counted."""


def largest(values, count):
    if not 0 < count < len(values):
        return np.arange(min(count, len(values)), dtype=np.int64)
    bits = np.ascontiguousarray(values).view(np.uint32)
    sure, perhaps = _candidates(bits, count) if len(bits) > FEW else (np.empty(0, np.int64), np.arange(len(bits)))
    sizes, wanted = bits[perhaps] & SIZE, count - len(sure)
    least = np.partition(sizes, -wanted)[-wanted]
    more, equal = perhaps[sizes > least], perhaps[sizes == least]
    return np.sort(np.concatenate([sure, more, equal[:wanted - len(more)]]))


def _candidates(bits, count):
    """Return the places in higher bins than that of the least wanted element, and those in its bin."""
    counts = np.zeros((WAYS, 1 << 31 - SHIFT), np.int64)
    _count(bits, counts)
    above = np.append(np.cumsum(counts.sum(axis=0)[::-1])[::-1], 0)  # elements in this bin and higher ones
    wanted = np.flatnonzero(above >= count)[-1]
    sure = np.empty(above[wanted + 1], np.int64)
    perhaps = np.empty(above[wanted] - above[wanted + 1], np.int64)
    _gather(bits, np.uint32(wanted), sure, perhaps)
    return sure, perhaps


@compiled
def _count(bits, counts):
    whole = len(bits) // WAYS * WAYS
    for i in range(0, whole, WAYS):
        for way in range(WAYS):
            counts[way, (bits[i + way] & SIZE) >> np.uint32(SHIFT)] += 1
    for i in range(whole, len(bits)):
        counts[0, (bits[i] & SIZE) >> np.uint32(SHIFT)] += 1


@compiled
def _gather(bits, wanted, sure, perhaps):
    first = second = 0
    for i in range(len(bits)):
        mine = (bits[i] & SIZE) >> np.uint32(SHIFT)
        if mine >= wanted:
            if mine > wanted:
                sure[first] = i
                first += 1
            else:
                perhaps[second] = i
                second += 1
