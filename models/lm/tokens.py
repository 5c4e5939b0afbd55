"""The counted tokens of a window, and what the softmax scores. All is computed once, from the batch alone.

Padding is left out here, so that the layers need not handle it.
"""

import numpy as np

from kernels import array_module, take_rows
from kernels.rows import grouped
from models.candidates import log_expected_count


class Tokens:
    """The counted positions of a batch, in C order of (time, streams). Row numbers are on the host.

    inputs, targets: (n,) int64.  weights: (n,).  read: the inputs, ``grouped``.
    A position with weight 0 is padding: its input reads as a zero vector, its output is not scored.
    Raises ValueError for an id outside the vocabulary, or shapes that differ.
    """

    def __init__(self, batch, vocabulary):
        inputs, targets, weights = batch.inputs, batch.targets, batch.weights
        if inputs.ndim != 2 or inputs.shape != targets.shape or (weights is not None and weights.shape != inputs.shape):
            raise ValueError(f"inputs {inputs.shape}, targets {targets.shape}, weights "
                             f"{None if weights is None else weights.shape}: all must be (time, streams)")
        self.shape = inputs.shape
        self.positions = None if weights is None or (weights != 0).all() else np.flatnonzero(weights)
        self.inputs, self.targets = self.counted(inputs), self.counted(targets)
        self.weights = 1.0 if weights is None else self.counted(weights)
        self.read = grouped(self.inputs)
        for name, ids in (("input", self.inputs), ("target", self.targets)):
            if len(ids) and not (ids.min() >= 0 and ids.max() < vocabulary):
                wrong = ids[(ids < 0) | (ids >= vocabulary)][0]
                raise ValueError(f"{name} token {int(wrong)} is outside the vocabulary of {vocabulary}")

    def counted(self, array):
        """Return the counted positions of a (time, streams, ...) array: (n, ...); a view if all count."""
        flat = array.reshape(-1, *array.shape[2:])
        return flat if self.positions is None else flat[array_module(array).asarray(self.positions)]

    def put(self, array, values):
        """Write values (n, ...) to the counted positions of a C-contiguous (time, streams, ...) array."""
        where = slice(None) if self.positions is None else array_module(array).asarray(self.positions)
        array.reshape(-1, *array.shape[2:])[where] = values

    def embed(self, rows):
        """Return (time, streams, d), zero at padding. rows: the vectors of the sorted unique inputs."""
        embedded = take_rows(rows, self.read.places)
        if self.positions is None:
            return embedded.reshape(*self.shape, rows.shape[1])
        x = array_module(rows).zeros((*self.shape, rows.shape[1]), rows.dtype)
        self.put(x, embedded)
        return x

    def scale(self, dtype, normaliser):
        """Return weight / normaliser of each counted target: (n,)."""
        weights = np.asarray(self.weights, dtype="float64")  # float32 weights would make 1 / 5 a float32 in float64
        return np.broadcast_to((weights / normaliser).astype(dtype), self.inputs.shape)


class Scored:
    """The words that a batch scores: its targets, if any, and then the candidates drawn for it. On the host.

    words: all of them, ``grouped``.  own, candidates: place of each target and candidate among words.ids.
    correction: of the logits, (k, 1).  hit: (n,), the candidate that equals the target, or -1.
    """

    def __init__(self, targets, drawn):
        self.words = grouped(np.concatenate([targets, drawn.ids]) if len(targets) else targets)
        self.own, self.candidates = np.split(self.words.places, [len(targets)])
        self.correction = log_expected_count(self.words.ids, drawn.tries, drawn.vocabulary)[:, None]
        number = np.full(len(self.words.ids), -1)
        number[self.candidates] = np.arange(len(self.candidates))
        self.hit = number[self.own]
