"""Initial values that are the same on every rank, because they are given."""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Given:
    """values: of all elements, one after the other. An ``initial`` of ``models.Variable``."""

    values: tuple[float, ...]

    @classmethod
    def of(cls, array) -> "Given":
        """Return an array's values. Local."""
        return cls(tuple(array.ravel().tolist()))

    def elements(self, key, start, count):
        """Return ``count`` values from element ``start`` on; no key changes them. Local."""
        return np.array(self.values[start:start + count])
