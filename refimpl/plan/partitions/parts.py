"""Some rows of a variable as a variable: with the same initial values, and with row numbers from 0 on."""

from dataclasses import dataclass

import numpy as np

from models import Variable


@dataclass(frozen=True)
class RowsOf(Variable):
    """Rows first, …, first + shape[0] - 1 of the variable ``whole``, under its name."""

    whole: Variable | None = None
    first: int = 0

    def initial_rows(self, seed, start=0, stop=None, stride=1):
        rows = range(self.shape[0])[start:stop:stride]
        return self.whole.initial_rows(seed, self.first + rows.start, self.first + rows.stop, rows.step)

    @property
    def rows(self) -> range:
        """Its row numbers in the whole variable."""
        return range(self.first, self.first + self.shape[0])

    def cut(self, ids):
        """Return the whole variable's row numbers that lie here, counted from ``first``. ids: sorted. Local."""
        low, high = np.searchsorted(ids, (self.first, self.first + self.shape[0]))
        return ids[low:high] - self.first


def rows_of(variable: Variable, start: int, stop: int) -> RowsOf:
    """Return rows [start, stop) of a variable as a variable. Local."""
    v = variable
    return RowsOf(v.name, (stop - start, *v.shape[1:]), v.sparse, v.initial, v.dtype, v.decays, v.clipped, v.statistic,
                  learning_rate=v.learning_rate, weight_decay=v.weight_decay, whole=v, first=start)


def cut_lists(variable: Variable, id_lists) -> list:
    """Return lists of the whole variable's row numbers as those of this variable, which may be a part of it. Local."""
    return [variable.cut(ids) for ids in id_lists] if isinstance(variable, RowsOf) else list(id_lists)
