"""How samples are stored: dense, in blocks of 64, or as CSR. A kernel value has the same bits in both.

A vector is one sample's features: a row (width,), or of CSR the pair (columns, values).
"""

import numpy as np
from scipy.sparse import csr_array, issparse

from kernels.svm import fast, sparse

DENSE_FROM = 32
"""CSR is used if fewer than one value of 32 is not 0. Then it is about equally fast, and needs 16 times less memory."""


def lean(rows):
    """Return rows, (n, width) float64, as CSR if few values are not 0 (DENSE_FROM), else as an array. Local."""
    rows = csr_array(rows)
    return rows if rows.nnz * DENSE_FROM < rows.shape[0] * rows.shape[1] else rows.toarray()


def dense(rows):
    """Return rows, an array or CSR, as an array. Local."""
    return rows.toarray() if issparse(rows) else np.ascontiguousarray(rows)


def stored(rows, kernel):
    """Return the storage of rows: an array or CSR, (n, width) float64. Local."""
    return (SparseStore if issparse(rows) else DenseStore)(rows, fast.numbers_of(kernel))


class DenseStore:
    """Rows as an array, whose order can be changed. Local.  numbers: see ``fast.numbers_of``."""

    def __init__(self, rows, numbers):
        self.blocks, self.numbers, self.width = fast.in_blocks(rows), numbers, rows.shape[1]

    def of(self, vectors):
        """Return a storage of these vectors."""
        return DenseStore(np.asarray(vectors), self.numbers)

    def taken(self, shelf, slots):
        """Return the vectors at these slots of a shelf."""
        return shelf[slots]

    def vectors(self, places):
        """Return the features of the samples at these indices: (k, width)."""
        return self.blocks[places // fast.BLOCK, :, places % fast.BLOCK]

    def diagonal(self, count: int):
        """Return K of each of the first ``count`` samples with itself: (count,)."""
        return fast.diagonal(*self.numbers, self.blocks, count)

    def swap(self, pairs):
        """Swap the samples at the two indices of each pair in turn: (k, 2)."""
        fast.swap_samples(self.blocks, pairs)

    def shelf(self, count: int):
        """Return a place for ``count`` vectors."""
        return np.empty((count, self.width))

    def value(self, x, z) -> float:
        """Return K of two vectors."""
        return fast.kernel_value(*self.numbers, x, z)

    def fill(self, vectors, slots, starts, stop: int, rows):
        """Write K(vectors[s], sample i) to rows[s, i] for starts[s] <= i < stop, for each s of ``slots``."""
        fast.fill_kernel_rows(*self.numbers, vectors, slots, self.blocks, starts, stop, rows)


class SparseStore:
    """Rows as CSR, whose order can be changed; see ``DenseStore``. Local."""

    def __init__(self, rows, numbers):
        rows = csr_array(rows, copy=not rows.has_canonical_format)
        rows.sum_duplicates()  # it also sorts the columns of each row
        self.columns, self.values = rows.indices.astype(np.int64), np.ascontiguousarray(rows.data)
        self.numbers, self.width = numbers, rows.shape[1]
        self.starts, self.stops = rows.indptr[:-1].astype(np.int64), rows.indptr[1:].astype(np.int64)
        self.spread = np.zeros(self.width)

    def of(self, vectors):
        """Return a storage of these vectors."""
        columns, values = map(np.concatenate, zip(*vectors))
        starts = np.cumsum([0, *(len(part) for part, _ in vectors)])
        return SparseStore(csr_array((values, columns, starts), (len(vectors), self.width)), self.numbers)

    def taken(self, shelf, slots):
        """Return the vectors at these slots of a shelf."""
        return [shelf[slot] for slot in slots]

    def vectors(self, places):
        """Return the samples at these indices: of each its columns, (k,) int64, and its values, (k,) float64."""
        parts = [slice(start, stop) for start, stop in zip(self.starts[places].tolist(), self.stops[places].tolist())]
        return [(self.columns[part], self.values[part]) for part in parts]

    def diagonal(self, count):
        """Return K of each of the first ``count`` samples with itself: (count,)."""
        return np.array([self.value(x, x) for x in self.vectors(np.arange(count))])

    def swap(self, pairs):
        """Swap the samples at the two indices of each pair in turn: (k, 2)."""
        fast.swap_places(self.starts, pairs)
        fast.swap_places(self.stops, pairs)

    def shelf(self, count):
        """Return a place for ``count`` vectors."""
        return [None] * count

    def value(self, x, z):
        """Return K of two vectors."""
        return sparse.kernel_value(*self.numbers, *x, *z)

    def fill(self, vectors, slots, starts, stop, rows):
        """Write kernel values to ``rows``, as ``DenseStore.fill`` does."""
        for slot in slots:
            sparse.fill_kernel_row(*self.numbers, *vectors[slot], self.spread, self.columns, self.values, self.starts,
                                   self.stops, starts[slot], stop, rows[slot])


class VectorPacking:
    """How vectors are sent, as float64 numbers; all ranks know each sample's length. Local.

    rows: all samples, an array or CSR.  A dense vector: its features. Of CSR: its columns, as bits, and its values.
    """

    def __init__(self, rows):
        self.sparse, self.width = issparse(rows), rows.shape[1]
        self.lengths = np.diff(rows.indptr).astype(np.int64) if self.sparse else None

    def counts(self, samples):
        """Return the number of float64 numbers in the vector of each of these samples: (len(samples),) int64."""
        return 2 * self.lengths[samples] if self.sparse else np.full(len(samples), self.width)

    def pack(self, vectors):
        """Return vectors as one array."""
        if not self.sparse:
            return np.ravel(vectors)
        return np.concatenate([np.empty(0), *(part.view(np.float64) for vector in vectors for part in vector)])

    def unpack(self, array, samples) -> list:
        """Return the vectors of these samples from ``pack``'s array."""
        if not self.sparse:
            return list(array.reshape(len(samples), self.width))
        cuts = np.cumsum(np.repeat(self.lengths[samples], 2))
        parts = np.split(array, cuts[:-1])
        return [(columns.view(np.int64), values) for columns, values in zip(parts[::2], parts[1::2])]
