"""A table of which a microbatch has only its own rows, among which a look-up finds places; and which rows these are."""

from functools import cached_property

import jax
import jax.numpy as jnp
import numpy as np

from refimpl.jax.arrays import to_jax, with_key


class PulledRows:
    """A sparse variable in a loss, which can only use ``params["words"][ids]``. Local.

    shape: of the whole table.  ids: (k,) sorted numbers of the available rows; None: all.  rows: (k, d).
    misses: a scalar; its gradient is the number of looked-up ids that are not available. Their rows are NaN.
    It is not a pytree, so a map over all parameters (for weight decay, say) fails instead of getting only some rows.
    """

    def __init__(self, name, shape, ids, rows, misses):
        self.name, self.shape, self.dtype = name, shape, rows.dtype
        self.ids, self.rows, self.misses = ids, rows, misses

    def __getitem__(self, ids):
        """Return rows of the ids, an integer array of any shape: (*ids.shape, d)."""
        if ids is Ellipsis or isinstance(ids, (slice, tuple)):
            self.__array__()
        ids = jnp.asarray(ids)
        if not jnp.issubdtype(ids.dtype, jnp.integer):
            raise ValueError(f"{self.name} is looked up by {ids.dtype}: row numbers are whole numbers")
        return self._look_up(ids, (ids >= 0) & (ids < self.shape[0]))

    def _look_up(self, ids, inside):
        if self.ids is None:
            return _taken(self.rows, self.misses, jnp.where(inside, ids, 0), inside)
        places = jnp.searchsorted(self.ids, ids)
        return _taken(self.rows, self.misses, places, inside & (self.ids[places] == ids))

    def __array__(self, *dtype, **copy):
        """Raise TypeError, because NumPy and JAX would otherwise convert it somehow."""
        raise TypeError(f"{PulledRows.__name__} {self.name} is no array")


class NotedRows(PulledRows):
    """A table without rows, which notes the looked-up ids: they are the gradient of its marks. Local.

    marks: (rows + 1,) zeros; the last one counts ids outside the table.  A look-up returns zeros.
    """

    def __init__(self, name, shape, marks):
        super().__init__(name, shape, None, marks, None)

    def _look_up(self, ids, inside):
        zeros = jnp.zeros((*ids.shape, *self.shape[1:]), self.dtype)
        return _noted(self.rows, jnp.where(inside, ids, self.shape[0]), zeros)


@jax.custom_vjp
def _taken(rows, misses, places, here):
    """Return rows[places], NaN for rows that are not available.  misses: only its gradient matters."""
    return jnp.where(here[..., None], rows[places], jnp.nan)


def _forward(rows, misses, places, here):
    return _taken(rows, misses, places, here), (rows, places, here)


def _backward(kept, gradient):
    rows, places, here = kept
    shares = jnp.where(here[..., None], gradient, 0)
    return jnp.zeros_like(rows).at[places].add(shares), jnp.sum(~here).astype(rows.dtype), None, None


_taken.defvjp(_forward, _backward)


@jax.custom_vjp
def _noted(marks, ids, zeros):
    """Return zeros; the gradient of marks counts ids, whatever follows, so XLA leaves out the rest of the loss."""
    return zeros


_noted.defvjp(lambda marks, ids, zeros: (zeros, (marks, ids)), lambda kept, _: (
    jnp.zeros_like(kept[0]).at[kept[1].reshape(-1)].add(1), None, None))


FEWEST = 64
"""The least number of rows after padding."""


def padded(ids, rows, last: int):
    """Return ids and rows, padded to a power of two, so that XLA compiles only for few lengths. Local.

    last: the padding of ids, a number above all of them. Rows are padded with 0.
    """
    count = max(FEWEST, 1 << max(len(ids) - 1, 0).bit_length())
    filled = np.full(count, last, np.int64), np.zeros((count, *rows.shape[1:]), rows.dtype)
    filled[0][:len(ids)], filled[1][:len(ids)] = ids, rows
    return filled


class Recorder:
    """Finds the rows that a batch needs: compiles from the loss only what computes the ids of its look-ups. Local.

    The loss runs with tables that note ids in the gradient of marks, one float a row. Nothing else is asked for, so XLA
    leaves out all that the ids do not depend on. If they depend on parameters, these have their initial values.
    called: see ``JaxModel._called``.  parts: of the model.  tables: names of those whose look-ups are recorded.
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
