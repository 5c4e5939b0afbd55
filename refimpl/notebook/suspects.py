"""The bugs of lesson 6, planted in copies of the reference adapter. Each class is one bug, nothing else."""

import numpy as np

from refimpl.conformance.adapters.reference import Reference


class DividedByPushes(Reference):
    """Rows are divided by their push count."""

    def counts(self, parts):
        return {k: sum(k in set(ids.tolist()) for ids, _ in parts) for k in super().counts(parts)}


class IdsAsFloats(Reference):
    """Row numbers pass through float32."""

    dtype = "float32"

    def leaf(self, ids, rows):
        return super().leaf(ids.astype(self.dtype).astype(np.int64), rows)
