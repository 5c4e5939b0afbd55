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
def fill_kernel_rows(kind, gamma, degree, constant, vectors, slots, blocks, starts, stop, rows):
    """Write K(vectors[s], sample i) to rows[s, i] for starts[s] <= i < stop, for each s of ``slots``.

    blocks: see ``in_blocks``; each is read from memory once for all vectors.
    """
    total = np.empty(BLOCK)
    for b in range(starts[slots].min() // BLOCK, (stop + BLOCK - 1) // BLOCK):
        for r in slots:
            first, last = max(starts[r], b * BLOCK), min(stop, (b + 1) * BLOCK)
            if first >= last:
                continue
            if kind == 0:
                _square_distances(vectors[r], blocks[b], total)
            else:
                _products(vectors[r], blocks[b], total)
            for i in range(BLOCK):
                total[i] = of_sum(kind, gamma, degree, constant, total[i])
            for i in range(first, last):
                rows[r, i] = total[i - b * BLOCK]


@compiled
def _square_distances(x, block, total):
    total[:] = 0.0
    for feature in range(len(x)):
        value = x[feature]
        for i in range(BLOCK):
            difference = block[feature, i] - value
            total[i] += difference * difference


@compiled
def _products(x, block, total):
    total[:] = 0.0
    for feature in range(len(x)):
        value = x[feature]
        for i in range(BLOCK):
            total[i] += block[feature, i] * value


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
def add_row(errors, row, factor, start, stop):
    """Add factor * row to the errors from ``start`` to ``stop``."""
    for i in range(start, stop):
        errors[i] += factor * row[i]


@compiled
def add_rows(errors, rows, slots, factors, stop):
    """Add factors[k] * rows[slots[k]] for each k in turn to the first ``stop`` errors, a part of them at a time."""
    for begin in range(0, stop, PART):
        end = min(begin + PART, stop)
        for k in range(len(slots)):
            for i in range(begin, end):
                errors[i] += factors[k] * rows[slots[k], i]


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
    """Return the places of samples at a bound that, with the current errors, can no longer be an end of the gap."""
    found, count = np.empty(stop, np.int64), 0
    for i in range(stop):
        if (state[i] == GROWS and errors[i] > low) or (state[i] == SHRINKS and errors[i] < up):
            found[count] = i
            count += 1
    return found[:count]


@compiled
def change_block(between, errors, y, alpha, c, second, gap, limit):
    """Change ``alpha`` pair by pair until the gap among these samples is at most ``gap``. Return the number of changes.

    between: (k, k), K of the samples.  errors, y, alpha: (k,); errors and alpha are written.  second: select partners
    by their gain.  limit: the largest number of changes.  Ties go to the first sample.
    """
    for change in range(limit):
        i, j, up, low = -1, -1, np.inf, -np.inf
        for k in range(len(y)):
            state = state_of(y[k], alpha[k], c)
            if state & GROWS and errors[k] < up:
                i, up = k, errors[k]
            if state & SHRINKS and errors[k] > low:
                j, low = k, errors[k]
        if low - up <= gap:
            return change
        if second:
            best = -1.0
            for k in range(len(y)):
                if state_of(y[k], alpha[k], c) & SHRINKS and errors[k] > up:
                    curvature = max(between[i, i] + between[k, k] - 2.0 * between[i, k], LEAST_CURVATURE)
                    gain = (errors[k] - up) * (errors[k] - up) / curvature
                    if gain > best:
                        best, j = gain, k
        curvature = max(between[i, i] + between[j, j] - 2.0 * between[i, j], LEAST_CURVATURE)
        near = c - alpha[i] if y[i] > 0 else alpha[i]
        far = alpha[j] if y[j] > 0 else c - alpha[j]
        step = min((errors[j] - up) / curvature, near, far)
        alpha[i] = (c if y[i] > 0 else 0.0) if step == near else alpha[i] + y[i] * step
        alpha[j] = (0.0 if y[j] > 0 else c) if step == far else alpha[j] - y[j] * step
        for k in range(len(y)):
            errors[k] += step * between[i, k] - step * between[j, k]
    return limit
