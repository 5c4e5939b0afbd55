"""Tables that are neither read nor written: any number of rows, without memory. For aggregation alone."""

import numpy as np

from models import Variable


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
    """A sparse variable whose initial values are such zeros."""

    def initial_rows(self, seed, start=0, stop=None, stride=1):
        return untouched((len(range(self.shape[0])[start:stop:stride]), *self.shape[1:]), self.dtype)
