"""Find the rows that a batch needs: compile from the loss only what computes the ids of its look-ups."""

from functools import cached_property

import jax
import numpy as np

from refimpl.jax.arrays import to_jax, with_key
from refimpl.jax.rows import NotedRows


class Recorder:
    """Records the look-ups of some tables. Local.

    The loss runs with tables that note ids in the gradient of marks, one float a row. Nothing else is asked for, so XLA
    leaves out all that the ids do not depend on. If they depend on parameters, these have their initial values.
    called: see ``JaxModel._called``.  parts: of the model.
    """

    def __init__(self, loss, called, parts, tables):
        self.tables, self.parts = list(tables), parts

        def total(marks, values, batch):
            noted = {name: NotedRows(name, leaf.shape, marks[name] if name in marks else jax.numpy.zeros(1, leaf.dtype))
                     for name, leaf in parts.leaves.items() if name in parts.tables}
            return called(loss, parts.tree({**values, **noted}), with_key(batch))[0]

        self.counted = jax.jit(jax.grad(total))

    @cached_property
    def given(self) -> tuple:
        """Return the marks of recorded tables, and the values of other arrays; they are made at their first use."""
        leaves = self.parts.leaves
        return (to_jax({name: np.zeros(leaves[name].shape[0] + 1, leaves[name].dtype) for name in self.tables}),
                to_jax({name: _values(leaf) for name, leaf in leaves.items() if name not in self.parts.tables}))

    def rows_needed(self, batch) -> dict:
        """Return table -> (k,) int64 sorted unique row numbers. Raises ValueError for ids outside a table."""
        found = {}
        for name, marks in self.counted(*self.given, to_jax(batch)).items():
            marks = np.asarray(marks)
            if marks[-1]:
                raise ValueError(f"the loss looks up {int(marks[-1])} rows of {name} that do not exist: it has rows 0 "
                                 f"to {len(marks) - 2}; look at the data")
            found[name] = np.flatnonzero(marks[:-1])
        return found


def _values(leaf):
    """Return an array; zeros where there is only a shape."""
    return np.zeros(leaf.shape, leaf.dtype) if isinstance(leaf, jax.ShapeDtypeStruct) else leaf
