"""Kernel functions in Numba. Same bits as ``definition``.

Samples are stored in blocks of BLOCK, with each feature of a block's samples side by side. So LLVM computes several
samples at once, each in the order of the features, and a block's sums stay in the fastest cache.
"""

import numpy as np

from kernels.compiled import compiled, inlined
from kernels.svm.definition import BIAS, KINDS, LEAST, LN2_HIGH, LN2_LOW, LOG2E, SHIFT, P, Q

BLOCK = 64
PART = 1024
"""The number of errors that stay in the fastest cache while rows are added to them."""
LEAST_CURVATURE = 1e-12
P0, P1, P2 = P
Q0, Q1, Q2, Q3 = Q


def in_blocks(rows):
    """Return (n, width) rows as (blocks, width, BLOCK), the last block padded with zeros. Local."""
    count = -(-len(rows) // BLOCK)
    padded = np.zeros((count * BLOCK, rows.shape[1]))
    padded[:len(rows)] = rows
    return np.ascontiguousarray(padded.reshape(count, BLOCK, -1).swapaxes(1, 2))


def numbers_of(kernel) -> tuple:
    """Return a ``definition.KernelFunction`` as numbers: place in KINDS, γ, degree, constant. Local."""
    return KINDS.index(kernel.kind), kernel.gamma, kernel.degree, kernel.constant


@inlined
def _exponential(x):
    y = x if x > LEAST else LEAST
    shifted = np.float64(y * LOG2E + SHIFT)
    n = shifted - SHIFT
    r = (y - n * LN2_HIGH) - n * LN2_LOW
    square = r * r
    p = r * ((P0 * square + P1) * square + P2)
    q = ((Q0 * square + Q1) * square + Q2) * square + Q3
    scale = np.int64((shifted.view(np.int64) + np.int64(BIAS)) << np.int64(52)).view(np.float64)
    found = (1.0 + 2.0 * (p / (q - p))) * scale
    return found if x > LEAST else 0.0


@inlined
def of_sum(kind, gamma, degree, constant, total):
    """Return K of two samples, from the sum over their features."""
    if kind == 0:
        return _exponential(-gamma * total)
    if kind == 2:
        factor = gamma * total + constant
        total = factor
        for _ in range(degree - 1):
            total *= factor
    return total


@compiled
def kernel_value(kind, gamma, degree, constant, x, z):
    """Return K(x, z) of two samples."""
    total = 0.0
    for feature in range(len(x)):
        total += (z[feature] - x[feature]) * (z[feature] - x[feature]) if kind == 0 else z[feature] * x[feature]
    return of_sum(kind, gamma, degree, constant, total)


@compiled
def diagonal(kind, gamma, degree, constant, blocks, count):
    """Return K of each of the first ``count`` samples with itself: (count,) float64."""
    found = np.zeros(count)
    for i in range(count):
        if kind != 0:
            for feature in range(blocks.shape[1]):
                value = blocks[i // BLOCK, feature, i % BLOCK]
                found[i] += value * value
        found[i] = of_sum(kind, gamma, degree, constant, found[i])
    return found


@compiled
def fill_kernel_rows(kind, gamma, degree, constant, vectors, slots, blocks, starts, stop, rows):
    """Write K(vectors[s], sample i) to rows[s, i] for starts[s] <= i < stop, for each s of ``slots``.

    blocks: see ``in_blocks``; each is read from memory once for all vectors.
    """
    totals = np.empty((len(slots) + 1, BLOCK))
    for b in range(starts[slots].min() // BLOCK, (stop + BLOCK - 1) // BLOCK):
        end = min(stop, (b + 1) * BLOCK)
        needed = slots[starts[slots] < end]
        for k in range(0, len(needed), 2):
            one, two = vectors[needed[k]], vectors[needed[min(k + 1, len(needed) - 1)]]
            _sum_features(kind, one, two, blocks[b], totals[k], totals[k + 1])
        for k in range(len(needed)):
            total, row, begin = totals[k], rows[needed[k]], max(starts[needed[k]], b * BLOCK)
            for i in range(BLOCK):
                total[i] = of_sum(kind, gamma, degree, constant, total[i])
            for i in range(begin, end):
                row[i] = total[i - b * BLOCK]


@compiled
def _sum_features(kind, one, two, block, ones, twos):
    """Write the sums over the features for two vectors: each feature is read once for both, feature after feature."""
    ones[:], twos[:] = 0.0, 0.0
    for feature in range(len(one)):
        x, y, z = one[feature], two[feature], block[feature]
        if kind == 0:
            for i in range(BLOCK):
                ones[i] += (z[i] - x) * (z[i] - x)
                twos[i] += (z[i] - y) * (z[i] - y)
        else:
            for i in range(BLOCK):
                ones[i] += z[i] * x
                twos[i] += z[i] * y


@compiled
def move_errors(errors, near, far, step, stop):
    """Add step * near - step * far to the first ``stop`` errors."""
    for i in range(stop):
        errors[i] += step * near[i] - step * far[i]


@compiled
def swap_columns(rows, lengths, pairs):
    """Swap columns i < j of each row, for each pair in turn. A row with i but not j is cut before i."""
    for r in range(len(rows)):
        for p in range(len(pairs)):
            i, j = pairs[p, 0], pairs[p, 1]
            if lengths[r] > j:
                rows[r, i], rows[r, j] = rows[r, j], rows[r, i]
            elif lengths[r] > i:
                lengths[r] = i


@compiled
def swap_places(array, pairs):
    """Swap the entries at the two places of each pair in turn: (k, 2)."""
    for p in range(len(pairs)):
        i, j = pairs[p, 0], pairs[p, 1]
        array[i], array[j] = array[j], array[i]


@compiled
def swap_samples(blocks, pairs):
    """Swap the samples at the two places of each pair in turn: (k, 2). blocks: see ``in_blocks``."""
    for p in range(len(pairs)):
        i, j = pairs[p, 0], pairs[p, 1]
        one, other = blocks[i // BLOCK, :, i % BLOCK], blocks[j // BLOCK, :, j % BLOCK]
        for feature in range(len(one)):
            one[feature], other[feature] = other[feature], one[feature]


@compiled
def add_rows(errors, rows, slots, factors, start, stop):
    """Add factors[k] * rows[slots[k]] for each k in turn to the errors from ``start`` to ``stop``, a part at a time.

    Four rows are added in one pass: they come from memory side by side.
    """
    fours = len(slots) - len(slots) % 4
    for begin in range(start, stop, PART):
        end = min(begin + PART, stop)
        part = errors[begin:end]
        for k in range(0, fours, 4):
            a, b = rows[slots[k], begin:end], rows[slots[k + 1], begin:end]
            c, d = rows[slots[k + 2], begin:end], rows[slots[k + 3], begin:end]
            e, f, g, h = factors[k], factors[k + 1], factors[k + 2], factors[k + 3]
            for i in range(len(part)):
                part[i] = part[i] + e * a[i] + f * b[i] + g * c[i] + h * d[i]
        for k in range(fours, len(slots)):
            row, factor = rows[slots[k], begin:end], factors[k]
            for i in range(len(part)):
                part[i] += factor * row[i]


@compiled
def columns(rows, slots, places):
    """Return K of the samples at ``places`` with the samples of these rows: (len(places), len(slots))."""
    found = np.empty((len(places), len(slots)))
    for k in range(len(slots)):
        row = rows[slots[k]]
        for p in range(len(places)):
            found[p, k] = row[places[p]]
    return found


GROWS, SHRINKS = 1, 2
"""Bits of a sample's state: whether α y can grow, and whether it can shrink."""


@compiled
def state_of(label, alpha, c):
    """Return the state of a sample: GROWS, SHRINKS, or both."""
    if 0.0 < alpha < c:
        return GROWS | SHRINKS
    return GROWS if (alpha == 0.0) == (label > 0.0) else SHRINKS


@compiled
def set_states(state, y, place, numbers, alpha, c, rank, size):
    """Write the states of those samples ``numbers`` whose number modulo ``size`` is ``rank``.

    state, y: of each place.  place: of the sample rank + k size, for each k.  alpha: of all samples.
    """
    for number in numbers:
        if number % size == rank:
            at = place[number // size]
            state[at] = state_of(y[at], alpha[number], c)


@compiled(fastmath={"nnan", "nsz"})  # minima of several samples at once; the sign of a zero does not matter
def find_ends(errors, state, ids, stop):
    """Return (F, id) of the smallest error whose α y can grow, and of the largest error whose α y can shrink.

    Ties go to the smallest id. If there is no sample: (inf, -1) and (-inf, -1).
    """
    up, low, first, last = np.inf, -np.inf, -1, -1
    for i in range(stop):
        grows = errors[i] if state[i] & GROWS else np.inf
        up = grows if grows < up else up
        shrinks = errors[i] if state[i] & SHRINKS else -np.inf
        low = shrinks if shrinks > low else low
    smallest, largest = up, low
    for i in range(stop):
        if errors[i] == smallest and state[i] & GROWS and (first < 0 or ids[i] < first):
            up, first = errors[i], ids[i]
        if errors[i] == largest and state[i] & SHRINKS and (last < 0 or ids[i] < last):
            low, last = errors[i], ids[i]
    return up, first, low, last


@compiled(fastmath={"nnan", "nsz"})
def find_partner(errors, state, ids, stop, up, row, diagonal, own, gains):
    """Return (gain, id, F) of the partner with the largest gain for ``up``: (F - up)² / curvature.

    row: K(up, each sample).  diagonal: K(sample, itself).  own: K(up, up).  gains: written.  Ties go to the smallest
    id.
    """
    best, found, error = -1.0, -1, 0.0
    for i in range(stop):
        gap, curvature = errors[i] - up, own + diagonal[i] - 2.0 * row[i]
        curvature = curvature if curvature > LEAST_CURVATURE else LEAST_CURVATURE
        gain = gap * gap / curvature if gap > 0.0 and state[i] & SHRINKS else -1.0
        gains[i] = gain
        best = gain if gain > best else best
    for i in range(stop):
        if gains[i] == best and best > 0.0 and (found < 0 or ids[i] < found):
            found, error = ids[i], errors[i]
    return best, found, error


@compiled
def find_eliminated(errors, state, stop, up, low):
    """Return the places of samples at a bound that, with the current errors, cannot be an end of the gap."""
    found, count = np.empty(stop, np.int64), 0
    for i in range(stop):
        if (state[i] == GROWS and errors[i] > low) or (state[i] == SHRINKS and errors[i] < up):
            found[count] = i
            count += 1
    return found[:count]
