"""Changes of the weights of a block of samples, in Numba: one pair after the other, as the ranks would make them."""

import numpy as np

from kernels.compiled import compiled, inlined
from kernels.svm.fast import GROWS, LEAST_CURVATURE, SHRINKS, state_of


@compiled
def keep_related(between, before, found, places):
    """Copy K of samples that stay in the block: from ``before`` in ``between`` to ``places`` in ``found``."""
    for a in range(len(before)):
        old, new = between[before[a]], found[places[a]]
        for b in range(len(before)):
            new[places[b]] = old[before[b]]


@compiled
def relate(between, some, others, values):
    """Write K of some samples with others, (len(some), len(others)), to both places that it has in ``between``."""
    for a in range(len(some)):
        for b in range(len(others)):
            between[some[a], others[b]] = between[others[b], some[a]] = values[a, b]


@compiled
def mirror(between, some):
    """Copy the rows ``some`` of a symmetric matrix, (k, k), to the columns of the same places."""
    for a in some:
        for b in range(len(between)):
            between[b, a] = between[a, b]


@compiled
def find_newest(numbers, most, seen):
    """Return at most ``most`` places where a number occurs for the first time. seen: (n,) of False, also at the end."""
    found, count = np.empty(len(numbers), np.int64), 0
    for place in range(len(numbers)):
        if count < most and not seen[numbers[place]]:
            seen[numbers[place]] = True
            found[count] = place
            count += 1
    for place in found[:count]:
        seen[numbers[place]] = False
    return found[:count]


@compiled(fastmath={"nnan", "nsz"})
def change_block(between, errors, y, alpha, c, second, gap, limit):
    """Change ``alpha`` pair by pair until the gap among these samples is at most ``gap``. Return the number of changes.

    between: (k, k), K of the samples.  errors, y, alpha: (k,); errors and alpha are written.  second: select partners
    by their gain.  limit: the largest number of changes.  Ties go to the first sample.
    """
    count = len(y)
    above, below, diagonal = np.empty(count), np.empty(count), np.empty(count)
    gains, no_bound = np.empty(count), np.zeros(count)
    for k in range(count):
        diagonal[k] = between[k, k]
        _bound(k, y, alpha, c, above, below)
    for change in range(limit):
        up, low = np.inf, -np.inf
        for k in range(count):
            grows, shrinks = errors[k] + above[k], errors[k] + below[k]
            up = grows if grows < up else up
            low = shrinks if shrinks > low else low
        if low - up <= gap:
            return change
        i = _first(errors, above, up)
        if second:
            best, own, near = -1.0, diagonal[i], between[i]
            for k in range(count):
                rise, curvature = errors[k] + below[k] - up, own + diagonal[k] - 2.0 * near[k]
                curvature = curvature if curvature > LEAST_CURVATURE else LEAST_CURVATURE
                gain = rise * rise / curvature if rise > 0.0 else -1.0
                gains[k] = gain
                best = gain if gain > best else best
            j = _first(gains, no_bound, best)
        else:
            j = _first(errors, below, low)
        _change_pair(between[i], between[j], i, j, errors, y, alpha, c, up)
        _bound(i, y, alpha, c, above, below)
        _bound(j, y, alpha, c, above, below)
    return limit


@inlined
def _bound(k, y, alpha, c, above, below):
    """Set above[k] to 0 if α y of sample k can grow, else inf; and below[k] to 0 if it can shrink, else -inf."""
    state = state_of(y[k], alpha[k], c)
    above[k], below[k] = 0.0 if state & GROWS else np.inf, 0.0 if state & SHRINKS else -np.inf


@compiled
def _first(errors, bound, extreme):
    """Return the first sample whose error is ``extreme``, among those that are not at the bound."""
    for k in range(len(errors)):
        if errors[k] == extreme and bound[k] == 0.0:
            return k
    return -1


@compiled
def _change_pair(near, far, i, j, errors, y, alpha, c, up):
    """Move α y from sample j to sample i by the best step; update all errors. near, far: K of i, of j, with all."""
    curvature = max(near[i] + far[j] - 2.0 * near[j], LEAST_CURVATURE)
    room = c - alpha[i] if y[i] > 0 else alpha[i]
    other = alpha[j] if y[j] > 0 else c - alpha[j]
    step = min((errors[j] - up) / curvature, room, other)
    alpha[i] = (c if y[i] > 0 else 0.0) if step == room else alpha[i] + y[i] * step
    alpha[j] = (0.0 if y[j] > 0 else c) if step == other else alpha[j] - y[j] * step
    for k in range(len(y)):
        errors[k] += step * near[k] - step * far[k]
