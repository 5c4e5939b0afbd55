"""The row gradient: sorted unique row numbers and one gradient row each."""

from dataclasses import dataclass
from typing import Any


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
