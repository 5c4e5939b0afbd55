"""The language model of Jozefowicz et al. 2016 (lm1b): embedding, LSTM with projection and dropout, sampled softmax."""

import math

from kernels import RowGradient, aggregate_rows, array_module, take_rows
from kernels.lstm import Workspace
from kernels.random import key_of
from models.candidates import draw_candidates
from models.lm.layers import layer_backward, layer_forward
from models.lm.tokens import Scored, Tokens
from models.protocol import unchanged
from models.sampled_softmax import sampled_softmax, softmax_losses
from models.sizes import require_few, require_kept, require_positive
from models.variable import Uniform, Variable

PRESETS = {
    "tiny": dict(vocabulary=50, embedding=8, hidden=12, projection=6, layers=1, samples=16, keep=0.9),
    "small": dict(vocabulary=25_000, embedding=128, hidden=256, projection=128, layers=1, samples=512, keep=0.9),
    # docs/paper.md: LSTM 2048, projection 512, one-billion-word vocabulary; the authors clip only the LSTM's variables
    "paper": dict(vocabulary=793_470, embedding=512, hidden=2048, projection=512, layers=1, samples=8192, keep=0.9,
                  clipped="lstm"),
}
"""Named sizes."""


class LanguageModel:
    """Next-word model: sparse embedding -> ``layers`` LSTMs with projection -> sampled softmax, sparse weight and bias.

    vocabulary: words, sorted by falling frequency, as the candidate sampler expects.
    projection: width of h; 0 or None: ``hidden``.  samples: candidates of a microbatch.
    keep: probability to keep an element of the first input and of each layer's output while training.
    clipped: "all", or "lstm", the authors' choice: clip by the norm of the LSTM's variables only.
    Source: github.com/snuspl/parallax, examples/lm1b; a batch is (time, streams) int64, see models.protocol.
    """

    def __init__(self, vocabulary, embedding, hidden, projection, layers, samples, keep, dtype="float32",
                 clipped="all"):
        require_positive(vocabulary=vocabulary, embedding=embedding, hidden=hidden, layers=layers, samples=samples)
        require_few(layers, f"layers={layers}")
        if projection not in (0, None):
            require_positive(projection=projection)
        if clipped not in ("all", "lstm"):
            raise ValueError(f"clipped={clipped!r}: choose 'all' or 'lstm'")
        require_kept(keep)
        if samples > vocabulary:
            raise ValueError(f"samples={samples}: choose 1 to {vocabulary}, the vocabulary")
        self.vocabulary, self.samples, self.keep, self.dtype = vocabulary, samples, keep, dtype
        self.hidden, self.width = hidden, projection or hidden
        self.layers = [f"lstm{n}" for n in range(layers)]
        self.projected = bool(projection)
        self.variables = self.declare(embedding, clipped)
        self.workspaces = {layer: Workspace() for layer in self.layers}

    def declare(self, embedding, clipped):
        """Return the variables. Limits keep the variance of sums near that of their terms (lm1b: unit scaling)."""
        lstm, width = {"dtype": self.dtype}, self.width
        words = {**lstm, "sparse": True, "clipped": clipped == "all"}
        variables = [Variable("embedding", (self.vocabulary, embedding), initial=Uniform(1.0), **words)]
        inputs = embedding
        for layer in self.layers:
            variables.append(Variable(f"{layer}/kernel", (inputs + width, 4 * self.hidden),
                                      initial=Uniform(math.sqrt(3 / (inputs + width))), **lstm))
            variables.append(Variable(f"{layer}/bias", (4 * self.hidden,), decays=False, **lstm))
            if self.projected:
                variables.append(Variable(f"{layer}/projection", (self.hidden, width),
                                          initial=Uniform(math.sqrt(3 / self.hidden)), **lstm))
            inputs = width
        return variables + [
            Variable("softmax_weight", (self.vocabulary, width), initial=Uniform(math.sqrt(3 / width) / 4), **words),
            Variable("softmax_bias", (self.vocabulary, 1), decays=False, **words),
        ]

    half = staticmethod(unchanged)

    def rows_needed(self, batch):
        """Return the rows of the inputs, and of the targets and candidates; padding needs no rows. Local."""
        tokens, scored = self.words_of(batch)
        return {"embedding": tokens.read.ids, "softmax_weight": scored.words.ids, "softmax_bias": scored.words.ids}

    def words_of(self, batch):
        """Return the ``Tokens`` and ``Scored`` of a batch, computed once, unless its arrays or key are replaced."""
        given = batch.key, batch.inputs, batch.targets, batch.weights
        known, words = batch.notes.get(self, (None, None))
        if known is None or any(one is not other for one, other in zip(known, given)):
            tokens = Tokens(batch, self.vocabulary)
            words = tokens, Scored(tokens.targets, self.candidates(batch))
            batch.notes[self] = given, words
        return words

    def candidates(self, batch):
        """Return the microbatch's candidates, which depend only on its key."""
        return draw_candidates(key_of(batch.key, "candidates"), self.samples, self.vocabulary)

    def loss_and_gradients(self, dense, rows, batch):
        tokens, scored = self.words_of(batch)
        x = self.half(tokens.embed(rows["embedding"]))
        h, tapes = self.run_layers(dense, x, batch, self.keep)
        loss, dh, gradients = self.output(h, rows, tokens, scored, batch.normaliser)
        dh = self.half(dh)
        batch.ready(gradients)
        for layer in reversed(self.layers):
            dh = self.half(layer_backward(layer, dense, tapes[layer], dh, gradients))
            batch.ready(gradients)
        gradients["embedding"] = aggregate_rows(tokens.read, tokens.counted(dh))
        return loss, gradients

    def run_layers(self, dense, x, batch, keep):
        """Return the last layer's (time, streams, width) and the tape of each layer; keep the state in batch.state."""
        tapes = {}
        for n, layer in enumerate(self.layers):
            x, tapes[layer] = layer_forward(layer, dense, x, batch, keep, first=n == 0,
                                            widths=(self.hidden, self.width), workspace=self.workspaces[layer])
            x = self.half(x)
        return x, tapes

    def output(self, h, rows, tokens, scored, normaliser):
        """Return (loss, gradient with respect to h, row gradients of the softmax)."""
        xp, words = array_module(h), scored.words
        dh = xp.zeros(h.shape, h.dtype)
        weight, bias = rows["softmax_weight"], rows["softmax_bias"]
        if not len(words.ids):
            return 0.0, dh, {"softmax_weight": RowGradient(words.ids, weight),
                             "softmax_bias": RowGradient(words.ids, bias)}
        corrected = bias - xp.asarray(scored.correction.astype(h.dtype))
        loss, (dhidden, own_weights, own_biases, sampled_weights, sampled_biases) = sampled_softmax(
            tokens.counted(h), take_rows(weight, scored.own), take_rows(corrected, scored.own)[:, 0],
            take_rows(weight, scored.candidates), take_rows(corrected, scored.candidates)[:, 0],
            xp.asarray(scored.hit), xp.asarray(tokens.scale(h.dtype, normaliser)))
        tokens.put(dh, dhidden)
        weights = xp.concatenate([own_weights, sampled_weights])
        biases = xp.concatenate([own_biases, sampled_biases])[:, None]
        return loss, dh, {"softmax_weight": aggregate_rows(words, weights),
                          "softmax_bias": aggregate_rows(words, biases)}

    def evaluate(self, dense, tables, batch):
        """Return {"loss": sum of cross-entropies in nats, "count": targets} under the full softmax; keep the state.

        tables: name -> each whole sparse variable. Nothing is dropped or sampled. Local.
        """
        tokens = Tokens(batch, self.vocabulary)
        x = tokens.embed(take_rows(tables["embedding"], tokens.read.ids))
        h, _ = self.run_layers(dense, x, batch, keep=1.0)
        losses = softmax_losses(tokens.counted(h), tables["softmax_weight"], tables["softmax_bias"], tokens.targets)
        counted = losses * array_module(losses).asarray(tokens.weights)
        return {"loss": float(counted.sum()), "count": int(len(tokens.targets))}
