"""The places of the largest elements by a histogram, in Numba. Plain version: ``plain.encoding.sparse_codecs.TopK``.

The bits of positive float32 numbers, read as integers, have the order of the numbers. The first pass counts the sizes
by their upper bits. This shows which bin contains the smallest of the ``count`` largest elements. The second pass takes
all elements of higher bins, and collects those of this bin. Only these must be sorted.
"""

import numpy as np

from kernels.compiled import compiled

SHIFT = 19
"""The number of lower bits that are ignored: the histogram uses 8 bits of exponent and 4 of the fraction."""
SIZE = np.uint32(2**31 - 1)  # all bits but the sign
FEW = 2**13
"""With at most so many elements all are sorted: a histogram would take longer."""
WAYS = 4
"""Several histograms are used in turn, so that an element need not wait until its neighbour is counted."""


def largest(values, count):
    """Return the places of the ``count`` largest |values|, among equal ones the first: sorted int64. Local.

    values: (n,) float32.
    """
    if not 0 < count < len(values):
        return np.arange(min(count, len(values)), dtype=np.int64)
    bits = np.ascontiguousarray(values).view(np.uint32)
    sure, perhaps = _candidates(bits, count) if len(bits) > FEW else (np.empty(0, np.int64), np.arange(len(bits)))
    sizes, wanted = bits[perhaps] & SIZE, count - len(sure)
    least = np.partition(sizes, -wanted)[-wanted]
    more, equal = perhaps[sizes > least], perhaps[sizes == least]
    return np.sort(np.concatenate([sure, more, equal[:wanted - len(more)]]))


def _candidates(bits, count):
    """Return the places in higher bins than the smallest wanted element's, and the places in its bin."""
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
