"""Initial values for our own implementation: values that are given, and tables that nobody reads, in no memory."""

from dataclasses import dataclass

import numpy as np

from models import Variable


@dataclass(frozen=True)
class Given:
    """An ``initial`` of ``models.Variable``, the same on every rank. values: of all elements, one after the other."""

    values: tuple[float, ...]

    @classmethod
    def of(cls, array) -> "Given":
        """Return an array's values. Local."""
        return cls(tuple(array.ravel().tolist()))

    def elements(self, key, start, count):
        """Return ``count`` values from element ``start`` on; no key changes them. Local."""
        return np.array(self.values[start:start + count])


class _Table(np.ndarray):
    """A view of one zero; joined with others it is such a view again."""

    def __array_function__(self, function, types, args, kwargs):
        if function is np.concatenate:
            parts = args[0]
            return untouched((sum(len(p) for p in parts), *self.shape[1:]), self.dtype)
        return super().__array_function__(function, types, args, kwargs)


def untouched(shape, dtype):
    """Return zeros of a shape that take no memory and cannot be written. Local."""
    return np.broadcast_to(np.zeros((), dtype), shape).view(_Table)


class UntouchedTable(Variable):
    """A sparse variable of such zeros, of any number of rows. For aggregation alone."""

    def initial_rows(self, seed, start=0, stop=None, stride=1):
        return untouched((len(range(self.shape[0])[start:stop:stride]), *self.shape[1:]), self.dtype)
