"""A batch of sentence pairs as the model's input: lengths, the decoder's inputs, and rows of the two embeddings."""

import numpy as np

from kernels import aggregate_rows, array_module, take_rows, unique_ids
from models.data.pairs.words import PADDING, START


class Sentences:
    """The checked sources and targets of a batch. Word numbers are on the host.

    source: (source time, sentences) int64, PADDING after a sentence's end.  lengths: (sentences,) int64.
    read: (target time, sentences), the decoder's inputs: START, then all targets but the last; PADDING at weight 0.
    counted: flat indices of the n targets that count.  targets: (n,), these targets.  weights: (n,).
    Raises ValueError for shapes or word numbers that are wrong.
    """

    def __init__(self, batch, source_vocabulary, target_vocabulary):
        source, targets, weights = batch.inputs, batch.targets, batch.weights
        if source.ndim != 2 or targets.ndim != 2 or source.shape[1] != targets.shape[1]:
            raise ValueError(f"inputs {source.shape} and targets {targets.shape}: give (time, sentences) each")
        weights = np.ones(targets.shape, np.float32) if weights is None else weights
        if weights.shape != targets.shape:
            raise ValueError(f"weights {weights.shape} and targets {targets.shape} must have one shape")
        self.source, self.lengths = source, (source != PADDING).sum(axis=0)
        if ((source != PADDING) != (np.arange(len(source))[:, None] < self.lengths)).any() or (self.lengths == 0).any():
            raise ValueError(f"a source sentence is empty or has padding ({PADDING}) before its end")
        self.counted, self.normaliser = np.flatnonzero(weights), batch.normaliser
        self.targets, self.weights = targets.ravel()[self.counted], weights.ravel()[self.counted]
        before = np.concatenate([np.full((1, targets.shape[1]), START), targets[:-1]])[:len(targets)]
        self.read = np.where(weights != 0, before, PADDING)
        require_known("source", source[source != PADDING], source_vocabulary)
        require_known("target", self.targets, target_vocabulary)
        require_known("target", self.read[self.read != PADDING], target_vocabulary)

    def rows_needed(self):
        """Return the rows of each embedding that the batch reads; padding needs no rows."""
        return {"source_embedding": rows_of(self.source), "target_embedding": rows_of(self.read)}

    def scale(self, dtype):
        """Return weight / normaliser of each counted target: (n,)."""
        return (self.weights.astype(np.float64) / self.normaliser).astype(dtype)


def require_known(side, ids, vocabulary):
    """Raise ValueError, which names the first word number outside the vocabulary. Local."""
    if len(wrong := ids[(ids < 0) | (ids >= vocabulary)]):
        raise ValueError(f"{side} word {int(wrong[0])} is outside the vocabulary of {vocabulary}")


def rows_of(ids):
    """Return the rows that word numbers touch: (k,) int64, sorted, unique. Local."""
    return unique_ids(ids[ids != PADDING])


def embed(ids, rows):
    """Return a vector for each word number, zero for PADDING: ids (time, sentences) -> (time, sentences, d). Local.

    rows: (k, d), the values of ``rows_of(ids)``.
    """
    x = array_module(rows).zeros((ids.size, rows.shape[1]), rows.dtype)
    counted = np.flatnonzero(ids != PADDING)
    place = np.searchsorted(rows_of(ids), ids.ravel()[counted])
    x[array_module(rows).asarray(counted)] = take_rows(rows, place)
    return x.reshape(*ids.shape, rows.shape[1])


def embed_backward(ids, dx):
    """Return the row gradient of the embedding, without PADDING. dx: (time, sentences, d). Local."""
    counted = np.flatnonzero(ids != PADDING)
    return aggregate_rows(ids.ravel()[counted], dx.reshape(-1, dx.shape[2])[array_module(dx).asarray(counted)])
