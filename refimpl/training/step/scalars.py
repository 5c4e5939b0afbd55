"""The numbers of a step that the host needs before the update: losses, whether all is finite, and the norm.

On a GPU they stay there until all work of the step is launched. Then the host waits once, for all of them:

    microbatches' gradients ──▶ not finite? a flag each ────────────────┐
    sums ──▶ not finite? a flag each; squares of rows ──▶ 68 digits ────┼──▶ one transfer of 8-byte numbers
    losses ─────────────────────────────────────────────────────────────┘

Numbers that a model reports, such as parts of its loss, are added up exactly over the global batch (``Reported``).
"""

import math
from typing import NamedTuple

import numpy as np

from kernels import array_module
from kernels.exact_sum import digits_there
from kernels.reductions import all_finite, infinite_each, sum_of_squares_per_row_each
from refimpl.gradients import ExactSum
from refimpl.server import ReducedGradient

SQUARES_OVERFLOW = ("a row's sum of squares, which the gradients' norm is made of, overflows: it is not finite; lower "
                    "the learning rate")


class Found(NamedTuple):
    """losses: of this rank's microbatches.  squares: the exact sum of squares that this rank counts.

    error: the first of its numbers that is not finite, or None.  overflow: the first sum that is not, or None; another
    rank may know the cause.
    """

    losses: list[float]
    squares: ExactSum
    error: Exception | None
    overflow: Exception | None


class Scalars:
    """The numbers of one step on this rank. Local."""

    def __init__(self):
        self.squares = ExactSum()
        self.overflow: Exception | None = None
        self.gradients: list[tuple[str, int]] = []  # (variable, microbatch), and their flags
        self.flags: list = []
        self.sums: list[str] = []  # variables, and their flags
        self.sums_flags: list = []
        self.digits: list = []

    def watch(self, names, gradients):
        """Check gradients on a GPU with their present values. names: (variable, microbatch) of each."""
        self.gradients += names
        self.flags.append(infinite_each(gradients))

    def add(self, reduced: list[ReducedGradient]):
        """Check sums of gradients, and add up the squares that this rank counts.

        The squares of a row are added in float64 in one order, on whichever rank keeps the row. The sums of rows are
        added exactly. So the bits do not depend on where gradients are kept (docs/bugs.md, 26).
        """
        counted = [piece.gradient for piece in reduced if _is_in_norm(piece)]
        if not any(lies_there(piece.gradient) for piece in reduced):
            self._note([(piece.shard.variable.name, not all_finite(piece.gradient)) for piece in reduced])
            if self.overflow is None and counted:
                self._add_squares(counted)
            return
        self.sums += [piece.shard.variable.name for piece in reduced]
        self.sums_flags.append(infinite_each([piece.gradient for piece in reduced]))
        if counted:
            self.digits.append(digits_there(_squares_of_rows(counted)))

    def read(self, losses: list) -> Found:
        """Return a Found. losses: (microbatch, number or 0-d array). This waits for a GPU."""
        flags, sums_flags, digits, told = bring(self.flags, self.sums_flags, self.digits, _losses_there(losses))
        self._note(zip(self.sums, sums_flags))
        for row in digits.reshape(-1, len(self.squares.digits) + 1):
            self.squares.digits += row[:-1]
            if row[-1] and self.overflow is None:
                self.overflow = ValueError(SQUARES_OVERFLOW)
        bad = [name for name, flag in zip(self.gradients, flags) if flag]
        error, told = not_finite(*bad[0]) if bad else None, iter(told.view(np.float64).tolist())
        values = [(v, next(told) if lies_there(loss) else float(loss)) for v, loss in losses]
        try:
            check_losses(values)
        except ValueError as problem:
            error = error or problem
        return Found([value for _, value in values], self.squares, error, self.overflow)

    def _add_squares(self, gradients):
        squares = _squares_of_rows(gradients)
        if all_finite(squares):
            self.squares.add(squares)
        else:  # not raised here: all ranks agree on errors later
            self.overflow = ValueError(SQUARES_OVERFLOW)

    def _note(self, flags):
        for name, flag in flags:
            if flag and self.overflow is None:
                self.overflow = ValueError(f"the sum of the microbatches' gradients of {name!r} overflows: it is not "
                                           "finite; lower the learning rate or clip the norm")


def _is_in_norm(piece: ReducedGradient) -> bool:
    variable = piece.shard.variable
    return piece.counts and variable.clipped and not variable.statistic and piece.gradient.size > 0


def _squares_of_rows(gradients):
    return sum_of_squares_per_row_each([g.reshape(len(g) if g.ndim else 1, -1) for g in gradients])


def _losses_there(losses) -> list:
    return [loss.astype(np.float64).reshape(1).view(np.int64) for _, loss in losses if lies_there(loss)]


def check_losses(losses):
    """Raise ValueError for a loss that is not finite. losses: (microbatch, number), not those on a GPU. Local."""
    for microbatch, loss in losses:
        if not lies_there(loss) and not np.isfinite(float(loss)):
            raise ValueError(f"the loss of microbatch {microbatch} is {float(loss)}; lower the learning rate or clip "
                             "the norm")


def bring(*groups) -> list:
    """Return each group of (n,) int64 arrays on a GPU as one NumPy array, by a single transfer. Local."""
    arrays = [array for group in groups for array in group]
    everything = array_module(*arrays).concatenate(arrays).get() if arrays else np.zeros(0, np.int64)
    ends = np.cumsum([sum(array.size for array in group) for group in groups])
    return np.split(everything, ends[:-1])


def lies_there(array) -> bool:
    """Return whether an array is on a GPU. Local."""
    return array_module(array).__name__ == "cupy"


def not_finite(name, microbatch) -> ValueError:
    """Return the error for a gradient of a microbatch that is not finite."""
    return ValueError(f"the gradient of {name!r} in microbatch {microbatch} is not finite (NaN or infinity); lower the "
                      "learning rate, clip the norm, or look at that microbatch's data")


class Reported:
    """Numbers that a model reports with its loss, ``names`` in ``batch.metrics``. Local, except for ``total``."""

    def __init__(self, names):
        self.names = tuple(names)
        self.sums = {name: ExactSum() for name in self.names}

    def take(self, batch):
        """Add the numbers of a microbatch. Raises ValueError for other names, and for numbers that are not finite."""
        if batch.metrics.keys() != self.sums.keys():
            reports = ", ".join(sorted(batch.metrics)) or "nothing"
            raise ValueError(f"microbatch {batch.index} reports {reports}, and the model names "
                             f"{', '.join(self.names) or 'no metrics'}: name all of them, TorchModel(..., "
                             "metrics=[...]), and let every microbatch report each")
        for name, value in batch.metrics.items():
            if not math.isfinite(value):
                raise ValueError(f"microbatch {batch.index} reports {name} {value}: it must be a finite number")
            self.sums[name].add([value])

    def total(self, comm) -> dict[str, float]:
        """Return name -> sum over the step's global batch, and start again. Collective: 8 · 67 bytes for each name."""
        digits = comm.total(np.concatenate([self.sums[name].digits for name in self.names]), "metrics")
        self.sums = {name: ExactSum() for name in self.names}
        return {name: ExactSum(row).value() for name, row in zip(self.names, digits.reshape(len(self.names), -1))}
