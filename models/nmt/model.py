"""Attention NMT, the translator of Parallax: an encoder, a decoder with attention, and two sparse embeddings."""

from numbers import Real

import numpy as np

from kernels.arrays import array_module
from kernels.lstm import Workspace
from kernels.softmax import exponentials, shares
from models.nmt.attention import attention_variables
from models.nmt.decoder import Decoder
from models.nmt.encoder import Encoder
from models.nmt.layers import LIMIT
from models.nmt.sentences import Sentences, embed, embed_backward
from models.sizes import require_few, require_kept, require_positive
from models.variable import Uniform, Variable

PRESETS = {
    "tiny": dict(source_vocabulary=40, target_vocabulary=50, units=6, layers=2, keep=0.9, smoothing=0.1),
    "small": dict(source_vocabulary=8_000, target_vocabulary=8_000, units=128, layers=2, keep=0.9, smoothing=0.0),
    "paper": dict(source_vocabulary=36_548, target_vocabulary=36_548, units=1024, layers=2, keep=0.8, smoothing=0.0),
}
"""Named sizes."""


class TranslationModel:
    """Sentence pairs: sparse embeddings -> encoder -> decoder with normalised additive attention -> full softmax.

    units: width of embeddings and layers.  layers: of the encoder (the lowest is bidirectional) and of the decoder.
    keep: probability to keep an element of each layer's input while training.  smoothing: of the labels, 0 for none.
    A batch: inputs (source time, sentences), targets (target time, sentences) int64, weights 0 past a target's end; see
    ``models.nmt.sentences``. Source: the authors' NMT example, "gnmt_v2" (docs/paper.md, Models).
    """

    def __init__(self, source_vocabulary, target_vocabulary, units, layers, keep, smoothing=0.0, dtype="float32"):
        require_positive(source_vocabulary=source_vocabulary, target_vocabulary=target_vocabulary, units=units,
                         layers=layers)
        require_few(layers, f"layers={layers}")
        if layers < 2:
            raise ValueError(f"layers={layers}: give at least 2, the encoder's lowest is bidirectional")
        require_kept(keep)
        if not isinstance(smoothing, Real) or not 0 <= smoothing < 1:
            raise ValueError(f"smoothing={smoothing!r}: give 0 (none) or a part below 1")
        self.vocabularies, self.units, self.dtype = (source_vocabulary, target_vocabulary), units, dtype
        self.keep, self.smoothing = keep, smoothing
        workspaces = {}
        self.encoder, self.decoder = (kind(units, layers, workspaces) for kind in (Encoder, Decoder))
        for name in (*self.encoder.directions, *self.encoder.upper, *self.decoder.layers):
            workspaces[name] = Workspace()
        self.variables = self.declare()

    def declare(self):
        """Return the variables."""
        weight = {"initial": Uniform(LIMIT), "dtype": self.dtype}
        source, target = (Variable(f"{side}_embedding", (words, self.units), sparse=True, **weight)
                          for side, words in zip(("source", "target"), self.vocabularies))
        return [source, *self.encoder.variables(self.dtype), target, *attention_variables(self.units, self.dtype),
                *self.decoder.variables(self.dtype), Variable("output", (self.units, self.vocabularies[1]), **weight)]

    def rows_needed(self, batch):
        """Return the rows of the words read on each side; padding needs no rows. Local."""
        return Sentences(batch, *self.vocabularies).rows_needed()

    def loss_and_gradients(self, dense, rows, batch):
        sentences, gradients = Sentences(batch, *self.vocabularies), {}
        h, encoded, decoded = self.run(dense, rows, sentences, batch.key, self.keep)
        xp, flat = array_module(h), h.reshape(-1, self.units)
        counted = xp.asarray(sentences.counted)
        loss, dhidden, gradients["output"] = smoothed_cross_entropy(
            flat[counted], dense["output"], sentences.targets, xp.asarray(sentences.scale(h.dtype)), self.smoothing)
        batch.ready(gradients)
        dh = xp.zeros(flat.shape, h.dtype)
        dh[counted] = dhidden
        dread, dmemory, dstates = self.decoder.backward(dense, decoded, dh.reshape(h.shape), gradients, batch.ready)
        gradients["target_embedding"] = embed_backward(sentences.read, dread)
        batch.ready(gradients)
        dx = self.encoder.backward(dense, encoded, dmemory, dstates, sentences.lengths, gradients, batch.ready)
        gradients["source_embedding"] = embed_backward(sentences.source, dx)
        return loss, gradients

    def run(self, dense, rows, sentences, key, keep):
        """Return (h, the encoder's saved values, the decoder's saved values): h (target time, sentences, units)."""
        x = embed(sentences.source, rows["source_embedding"])
        memory, states, encoded = self.encoder.forward(dense, x, sentences.lengths, key, keep)
        read = embed(sentences.read, rows["target_embedding"])
        h, decoded = self.decoder.forward(dense, read, memory, states, sentences.lengths, key, keep)
        return h, encoded, decoded

    def evaluate(self, dense, tables, batch):
        """Return {"loss": sum of cross-entropies in nats, "count": targets}, without dropout and smoothing. Local."""
        sentences = Sentences(batch, *self.vocabularies)
        rows = {name: tables[name][array_module(tables[name]).asarray(ids)]
                for name, ids in sentences.rows_needed().items()}
        h, _, _ = self.run(dense, rows, sentences, batch.key, keep=1.0)
        xp = array_module(h)
        loss, _, _ = smoothed_cross_entropy(h.reshape(-1, self.units)[xp.asarray(sentences.counted)], dense["output"],
                                            sentences.targets, xp.asarray(sentences.weights.astype(h.dtype)))
        return {"loss": float(loss), "count": len(sentences.targets)}


def smoothed_cross_entropy(hidden, weight, targets, scale, smoothing=0.0):
    """Return (loss, dhidden, dweight): the scaled sum of the losses, in float64, and its gradients. Local.

    hidden: (n, d).  weight: (d, words).  targets: (n,) int64 on the host.  scale: (n,), weight of each loss.
    """
    xp, words = array_module(hidden), weight.shape[1]
    logits, place = hidden @ weight, (xp.asarray(np.arange(len(targets))), xp.asarray(targets))
    own = logits[place]
    to_all = smoothing * (own - logits.mean(axis=1)) if smoothing else None
    total = exponentials(logits, xp.zeros(words, logits.dtype), own, place[1])  # in place: logits hold them now
    loss, share, down = shares(total, own, scale)
    logits *= share[:, None]
    logits[place] = down
    if smoothing:
        loss = loss + (to_all * scale).sum(dtype=xp.float64)
        logits -= (scale * logits.dtype.type(smoothing / words))[:, None]
        logits[place] += scale * logits.dtype.type(smoothing)
    return loss, logits @ weight.T, hidden.T @ logits
