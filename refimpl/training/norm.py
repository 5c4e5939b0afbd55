"""The global norm for clipping: the same bits wherever gradients lie (docs/bugs.md, 26). Squares: see ``scalars``."""

import math

from refimpl.gradients import ExactSum


def clip_scale(norm: float, largest: float | None) -> float:
    """Return min(1, largest / norm): what a gradient is multiplied with. Local."""
    return 1.0 if largest is None or norm <= largest else largest / norm


def norm_of(sum_of_squares: ExactSum) -> float:
    """Return sqrt(Σ g²), rounded once from the exact sum, then by the root. Local."""
    return math.sqrt(sum_of_squares.value())
