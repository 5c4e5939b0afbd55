"""Plain array code for the reductions for clipping and the check for NaN: the oracle. Never optimised."""

from kernels.arrays import array_module

MOST_LANES = 256


def lanes_of(width) -> int:
    """Return the number of interleaved partial sums of a row: the next power of two of ``width``, at most 256."""
    return min(MOST_LANES, 1 << max(width - 1, 0).bit_length())


def sum_of_squares_per_row(x):
    """Return s[i] = sum over j of x[i, j]**2, in float64, in one fixed order: (k, d) -> (k,).

    With L = lanes_of(d): lane l sums x[i, l]**2, x[i, l + L]**2, x[i, l + 2L]**2, ... from left to right; then the
    lanes are folded in halves: lane l += lane l + L/2, then + L/4, ..., then + 1. The sum of a row depends only on this
    row, not on which rows are stored together. Padding adds +0 to sums that are never -0, so it changes no bit.
    """
    xp = array_module(x)
    count, width = x.shape
    lanes = lanes_of(width)
    padded = xp.zeros((count, -(-width // lanes) * lanes), dtype=xp.float64)
    padded[:, :width] = x
    total = xp.zeros((count, lanes), dtype=xp.float64)
    for start in range(0, width, lanes):
        part = padded[:, start : start + lanes]
        total = total + part * part
    while total.shape[1] > 1:
        half = total.shape[1] // 2
        total = total[:, :half] + total[:, half:]
    return total[:, 0]


def all_finite(x) -> bool:
    """Return True if no element is NaN or infinite."""
    return bool(array_module(x).isfinite(x).all())
