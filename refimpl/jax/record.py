"""Find the rows that a batch needs: compile from the loss only what computes the ids of its look-ups."""

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
        self.tables, self.leaves = list(tables), parts.leaves
        known = {name for name in parts.leaves if name not in parts.tables}

        def total(marks, values, batch):
            noted = {name: NotedRows(name, parts.leaves[name].shape, marks[name]) for name in marks}
            others = {name: NotedRows(name, parts.leaves[name].shape, values[name]) for name in parts.tables
                      if name not in marks}
            return called(loss, parts.tree({**values, **noted, **others}), with_key(batch))[0]

        self.counted = jax.jit(jax.grad(total))
        self.values = to_jax({name: _values(parts.leaves[name]) for name in known} | {
            name: self._marks(name) for name in parts.tables if name not in self.tables})
        self.marks = to_jax({name: self._marks(name) for name in self.tables})

    def rows_needed(self, batch) -> dict:
        """Return table -> (k,) int64 sorted unique row numbers. Raises ValueError for ids outside a table."""
        found = {}
        for name, marks in self.counted(self.marks, self.values, to_jax(batch)).items():
            marks = np.asarray(marks)
            if marks[-1]:
                raise ValueError(f"{name} is asked for {int(marks[-1])} rows that are none: it has {len(marks) - 1}, 0 "
                                 f"to {len(marks) - 2}; look at the data")
            found[name] = np.flatnonzero(marks[:-1])
        return found

    def _marks(self, name):
        return np.zeros(self.leaves[name].shape[0] + 1, self.leaves[name].dtype)


def _values(leaf):
    """Return an array; zeros where there is only a shape."""
    return np.zeros(leaf.shape, leaf.dtype) if isinstance(leaf, jax.ShapeDtypeStruct) else leaf
