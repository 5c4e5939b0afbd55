"""The global norm for clipping: the same bits wherever the gradient lies (BUGS 26)."""

import math

import numpy as np

from kernels import to_numpy
from kernels.reductions import all_finite, sum_of_squares_per_row
from refimpl.gradients import ExactSum
from refimpl.server import Summed


def squares(summed: list[Summed]) -> ExactSum:
    """Return the sum of squares of what this rank must count: each row in float64, all rows exactly. Local.

    Raises ValueError naming a variable whose summed gradient is not finite.
    A row's sum is formed whole, in one order, on whichever rank has it; rows are added without rounding.
    """
    rows = [np.empty(0)]
    for piece in summed:
        variable, gradient = piece.holding.variable, piece.gradient
        if not all_finite(gradient):
            raise ValueError(f"the sum of the microbatches' gradients of {variable.name!r} overflows: it is not "
                             "finite; lower the learning rate or clip the norm")
        if piece.counts and variable.clipped and not variable.statistic and gradient.size:
            rows.append(to_numpy(sum_of_squares_per_row(gradient.reshape(len(gradient) if gradient.ndim else 1, -1))))
    return ExactSum().add(np.concatenate(rows))


def clip_scale(norm: float, largest: float | None) -> float:
    """Return min(1, largest / norm): what a gradient is multiplied with. Local."""
    return 1.0 if largest is None or norm <= largest else largest / norm


def norm_of(sum_of_squares: ExactSum) -> float:
    """Return sqrt(Σ g²), rounded once from the exact sum, then by the root. Local."""
    return math.sqrt(sum_of_squares.value())
