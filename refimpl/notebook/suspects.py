"""The bugs of lesson 6, planted in copies of the reference adapter. Each class is one bug, nothing else."""

import numpy as np

from refimpl.conformance.adapters.reference import Reference


class DividedByPushes(Reference):
    """Rows are divided by their push count."""

    def divisors(self, parts, ids):
        return sum(np.isin(ids, pushed) for pushed, _ in parts)


class IdsAsFloats(Reference):
    """Row numbers pass through float32."""

    dtype = "float32"

    def leaf(self, ids, rows):
        return super().leaf(ids.astype(self.dtype).astype(np.int64), rows)
