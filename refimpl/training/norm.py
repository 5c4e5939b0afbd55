"""The global norm for clipping: the same bits wherever the gradient lies (BUGS 26)."""

import math

from kernels import array_module
from kernels.reductions import finite_each, sum_of_squares_per_row
from refimpl.gradients import ExactSum
from refimpl.server import Summed


def squares(summed: list[Summed]) -> ExactSum:
    """Return the sum of squares of what this rank must count: each row in float64, all rows exactly. Local.

    Raises ValueError naming a variable whose summed gradient is not finite.
    A row's sum is formed whole, in one order, on whichever rank has it; rows are added without rounding.
    """
    for piece, finite in zip(summed, finite_each([piece.gradient for piece in summed])):
        if not finite:
            raise ValueError(f"the sum of the microbatches' gradients of {piece.holding.variable.name!r} overflows: it "
                             "is not finite; lower the learning rate or clip the norm")
    rows = [sum_of_squares_per_row(gradient.reshape(len(gradient) if gradient.ndim else 1, -1))
            for gradient in (piece.gradient for piece in summed if _is_in_norm(piece))]
    return ExactSum().add(array_module(*rows).concatenate(rows)) if rows else ExactSum()


def _is_in_norm(piece: Summed) -> bool:
    variable = piece.holding.variable
    return piece.counts and variable.clipped and not variable.statistic and piece.gradient.size > 0


def clip_scale(norm: float, largest: float | None) -> float:
    """Return min(1, largest / norm): what a gradient is multiplied with. Local."""
    return 1.0 if largest is None or norm <= largest else largest / norm


def norm_of(sum_of_squares: ExactSum) -> float:
    """Return sqrt(Σ g²), rounded once from the exact sum, then by the root. Local."""
    return math.sqrt(sum_of_squares.value())
