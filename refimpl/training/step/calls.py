"""How a training calls a user's model: a write to what it may only read, and a result of another kind, become words."""

import re
import traceback
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from kernels import RowGradient
from refimpl.training.step.check import check_number

READ_ONLY = re.compile("read-?only|WRITEABLE")  # words of NumPy, Cython and Numba


def ask(model, method: str, *arguments):
    """Return model.method(*arguments). Local. Raises ValueError, naming model, method and line, for a forbidden write.

    What the training hands to a model is read-only (``kernels.arrays.read_only``).
    """
    try:
        return getattr(model, method)(*arguments)
    except (ValueError, TypeError, BufferError) as problem:  # as NumPy, Numba and Cython tell it
        if not READ_ONLY.search(str(problem)):
            raise
        where = traceback.extract_tb(problem.__traceback__)[-1]
        raise ValueError(f"{type(model).__name__}.{method} writes to an array that it may only read ({problem}), at "
                         f"{Path(where.filename).name}:{where.lineno}: {where.line}. Values, rows and batches are the "
                         "training's: change a copy, np.array(...)") from problem


class Calls:
    """A model's microbatches, computed one by one. Local.

    ``compute`` raises ValueError for what is not a loss and gradients; what these are worth is checked where they are
    added up (``check_some``).
    """

    def __init__(self, model):
        self.model = model
        self.row_gradients: list[tuple] = []  # (variable, microbatch, its row gradient, what its ends are)

    def compute(self, microbatch: int, dense, rows, batch):
        """Return (loss, gradients) of a microbatch; see ``models.Model.loss_and_gradients``."""
        result = ask(self.model, "loss_and_gradients", dense, rows, batch)
        if not isinstance(result, (tuple, list)) or len(result) != 2:
            raise ValueError(f"loss_and_gradients returned {type(result).__name__}: it must return two things, the "
                             "loss and the dict of gradients")
        if not isinstance(result[1], Mapping):
            raise ValueError(f"loss_and_gradients returned {type(result[1]).__name__} as gradients: they must be a "
                             "dict, name of each variable -> its gradient")
        check_number(f"the loss of microbatch {microbatch}", result[0])
        for name, gradient in result[1].items():
            if isinstance(gradient, RowGradient):
                self._keep(name, microbatch, gradient)
        return result

    def _keep(self, name, microbatch, gradient):
        """Note a row gradient, which is kept until the exchange. Raises ValueError if it lies where another one does.
        """
        for other, earlier, kept, _ in self.row_gradients:
            if other == name and share_memory(gradient.rows, kept.rows):
                raise used_again(name, earlier)
        self.row_gradients.append((name, microbatch, gradient, _ends_of(gradient)))

    def end(self):
        """All microbatches are computed. Raises ValueError if a row gradient was used again while it was kept."""
        for name, microbatch, gradient, ends in self.row_gradients:
            if _ends_of(gradient) != ends:
                raise used_again(name, microbatch)


def share_memory(one, other) -> bool:
    """Return whether two arrays of the host may lie in the same memory. Local."""
    return isinstance(one, np.ndarray) and isinstance(other, np.ndarray) and np.may_share_memory(one, other)


def used_again(name, microbatch) -> ValueError:
    """Return what is said of a row gradient that was written to while it was kept. Local."""
    return ValueError(f"the row gradient of {name!r} in microbatch {microbatch} was written to after it was returned; "
                      "it is kept until the step's exchange: give each one arrays of its own")


def _ends_of(gradient):
    """Return the first and the last row: who uses the arrays again changes these, too. On a GPU one would wait."""
    parts = gradient.ids, gradient.rows
    return all(isinstance(part, np.ndarray) and part.ndim and len(part) for part in parts) and [
        part[end].tobytes() for part in parts for end in (0, -1)]
