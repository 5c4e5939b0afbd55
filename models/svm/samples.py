"""A rank's samples, the active ones first, and the values that training keeps for each."""

import numpy as np

from kernels.svm import fast
from models.svm.storage import stored


class Samples:
    """The samples whose number modulo ``size`` is ``rank``. Local.

    rows: (n, width) float64, an array or CSR, of all samples.  labels: (n,) of +1 and -1.
    active: the number of active samples, which come first.  ids, y, state, error, diagonal: of each, in this order.
    """

    def __init__(self, rows, labels, kernel, rank: int, size: int):
        self.ids = np.arange(rank, len(labels), size)
        own = rows[self.ids]
        self.rank, self.size, self.active = rank, size, len(self.ids)
        self.y = labels[self.ids].astype(float)
        self.state, self.error = np.where(self.y > 0, fast.GROWS, fast.SHRINKS).astype(np.uint8), -self.y
        self.store, self.place = stored(own, kernel), np.arange(len(self.ids))
        vectors = map(self.store.vector, range(len(self.ids)))
        self.diagonal = np.array([self.store.value(x, x) for x in vectors])

    def __len__(self) -> int:
        return len(self.ids)

    def vector(self, number: int):
        """Return the features of one of this rank's samples."""
        return self.store.vector(self.place_of(number))

    def place_of(self, number: int) -> int:
        """Return where one of this rank's samples now stands."""
        return int(self.place[number // self.size])

    def set_states(self, numbers, alpha, c: float):
        """Set what the weights of those samples can do that this rank has. alpha: (n,), the weights of all samples."""
        fast.set_states(self.state, self.y, self.place, np.asarray(numbers), alpha, c, self.rank, self.size)

    def deactivate(self, places, cache):
        """Move the samples at these rising places behind the active ones, also in the cache's rows."""
        pairs = []
        for place in places[::-1].tolist():
            self.active -= 1
            if place != self.active:
                self._swap(place, self.active)
                pairs.append((place, self.active))
        cache.swap(np.array(pairs, np.int64).reshape(-1, 2))

    def _swap(self, i: int, j: int):
        for array in (self.ids, self.y, self.state, self.error, self.diagonal):
            array[i], array[j] = array[j], array[i]
        self.store.swap(i, j)
        self.place[self.ids[i] // self.size], self.place[self.ids[j] // self.size] = i, j
