"""The row gradient: sorted unique row numbers and one gradient row each. Row numbers that are sorted once."""

from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class RowGradient:
    """Gradient of a sparse variable: ``gradient[ids[i], :] = rows[i, :]``, zero elsewhere.

    ids: (k,) int64, strictly increasing.  rows: (k, d), the variable's dtype.
    TensorFlow's IndexedSlices may repeat ids; here ids never repeat. They are always int64 (docs/bugs.md, 16).
    """

    ids: Any
    rows: Any

    def __len__(self):
        return len(self.ids)


@dataclass(frozen=True)
class Grouped:
    """Row numbers in any order, sorted once for several uses: ``aggregate_rows`` takes them, too. On the host.

    given: (n,) int64, with repeats.  ids: (k,) int64, sorted and unique.  destination: see ``fast``.
    """

    given: Any
    ids: Any
    destination: Any

    @property
    def places(self):
        """Return the place of each given number in ids: (n,) int64, given == ids[places]."""
        return np.maximum(self.destination, ~self.destination)
