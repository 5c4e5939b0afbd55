"""Plain array code for the reductions behind clipping and the check for NaN: the oracle. Never optimised."""

from kernels.arrays import array_module

LANES = 32


def sum_of_squares_per_row(x):
    """Return s[i] = sum over j of x[i, j]**2, in float64, in one fixed order: (k, d) -> (k,).

    Lane l of 32 sums x[i, l]**2, x[i, l + 32]**2, x[i, l + 64]**2, ... from left to right; then the lanes are folded
    in halves: lane l += lane l + 16, then + 8, + 4, + 2, + 1. Row i depends on row i alone, so the sums do not
    depend on which rows are stored together. A padding zero changes no bit, because no sum of squares is -0.
    """
    xp = array_module(x)
    count, width = x.shape
    blocks = -(-width // LANES)
    padded = xp.zeros((count, blocks * LANES), dtype=xp.float64)
    padded[:, :width] = x
    lanes = xp.zeros((count, LANES), dtype=xp.float64)
    for block in range(blocks):
        part = padded[:, block * LANES : (block + 1) * LANES]
        lanes = lanes + part * part
    while lanes.shape[1] > 1:
        half = lanes.shape[1] // 2
        lanes = lanes[:, :half] + lanes[:, half:]
    return lanes[:, 0]


def all_finite(x) -> bool:
    """Return True if no element is NaN or infinite."""
    return bool(array_module(x).isfinite(x).all())
