"""The samples nearest to both ends of the gap, in Numba. The result does not depend on which ranks searched for them.

``found`` is (2, count, 2): samples near the first end and near the second one, each with its distance and its number.
Free places have the distance infinity. During the search each end is a heap: no sample is nearer than those at 2 k + 1
and 2 k + 2, below its place k, so the farthest sample comes first. Of equal distances the smaller number is nearer.
"""

import numpy as np

from kernels.compiled import compiled, inlined
from kernels.svm.fast import GROWS, SHRINKS


@compiled
def find_nearest(errors, state, ids, slots, stop, count):
    """Return the ``count`` samples of smallest F whose α y can grow, and of smallest -F whose α y can shrink, sorted.

    errors, state, ids: of each place; only the first ``stop`` count.  slots: (n,), for every sample its slot in a
    cache; samples with a slot are left out. Or an empty array.
    """
    found = np.full((2, count, 2), np.inf)
    near, far = found[0], found[1]
    for i in range(stop):
        left_out = len(slots) > 0 and slots[ids[i]] >= 0
        grows = errors[i] if state[i] & GROWS and not left_out else np.inf
        if grows <= near[0, 0]:
            _offer(near, grows, ids[i])
        shrinks = -errors[i] if state[i] & SHRINKS and not left_out else np.inf
        if shrinks <= far[0, 0]:
            _offer(far, shrinks, ids[i])
    _sort(near)
    _sort(far)
    return found


@compiled
def merge_nearest(offered):
    """Return the nearest of the samples that all ranks have found: (size, 2, count, 2) -> (2, count, 2)."""
    found = np.full(offered.shape[1:], np.inf)
    for end in range(2):
        for rank in range(len(offered)):
            for k in range(offered.shape[2]):
                _offer(found[end], offered[rank, end, k, 0], offered[rank, end, k, 1])
        _sort(found[end])
    return found


@inlined
def _nearer(distance, number, other):
    """Return whether a sample is nearer than another one of the heap."""
    return distance < other[0] or (distance == other[0] and number < other[1])


@compiled
def _offer(heap, distance, number):
    """Replace the farthest sample if this one is nearer. Infinite distances are ignored."""
    if distance < np.inf and _nearer(distance, number, heap[0]):
        heap[0, 0], heap[0, 1] = distance, number
        _sink(heap, len(heap))


@compiled
def _sort(heap):
    """Sort the samples, the nearest first: again and again the farthest is moved behind the rest of the heap."""
    for last in range(len(heap) - 1, 0, -1):
        for part in range(2):
            heap[0, part], heap[last, part] = heap[last, part], heap[0, part]
        _sink(heap, last)


@compiled
def _sink(heap, stop):
    """Exchange the first sample with farther ones below it, among the first ``stop``, until the heap is in order."""
    place, distance, number = 0, heap[0, 0], heap[0, 1]
    while 2 * place + 1 < stop:
        below = 2 * place + 1
        if below + 1 < stop and _nearer(heap[below, 0], heap[below, 1], heap[below + 1]):
            below += 1
        if not _nearer(distance, number, heap[below]):
            break
        heap[place, 0], heap[place, 1] = heap[below, 0], heap[below, 1]
        place = below
    heap[place, 0], heap[place, 1] = distance, number
