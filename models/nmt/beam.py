"""Translate with beam search: the decoder reads its own words, and keeps the best hypotheses (one: greedy search).

    score = sum of log p(word) / length^(penalty),   length = (5 + words) / 6      (Wu et al. 2016, section 7)
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from kernels.arrays import array_module, to_numpy
from models.data.pairs.words import END, START
from models.nmt.attention import Attention

PENALTY = 1.0
MOST = 2
"""The most words of a translation: this many for each word of the source, and some more."""


@dataclass
class Beam:
    """Hypotheses of one sentence, best first: words (k, n), the sum of their log probabilities (k,), and the decoder's
    state of each: states [(c, h)] of the layers, context (k, units)."""

    words: Any
    scores: Any
    states: list
    context: Any

    def chosen(self, parents, words, scores):
        """Return the beam of these parents, each with one more word."""
        where = array_module(self.context).asarray(parents)
        return Beam(np.concatenate([self.words[parents], words[:, None]], axis=1), scores,
                    [(c[where], h[where]) for c, h in self.states], self.context[where])


def translate(model, values, source, beam: int = 4):
    """Return the target words of a sentence, without END: (n,) int64. Local.

    values: name -> whole array of each variable.  source: (n,) int64 word numbers.  beam: the number of hypotheses.
    """
    attention, now = _begin(model, values, np.asarray(source)[:, None], beam)
    ended = []
    for length in range(1, MOST * len(source) + 10):
        logs = _next_words(model, values, attention, now)
        totals = now.scores[:, None] + logs
        best = np.argsort(-totals, axis=None, kind="stable")[:2 * beam]
        parents, words = np.unravel_index(best, totals.shape)
        scores, over = totals[parents, words], words == END
        ended += [(_penalised(score, length), now.words[parent, 1:])
                  for parent, score in zip(parents[over][:beam], scores[over][:beam])]
        going = np.flatnonzero(~over)[:beam]
        now = now.chosen(parents[going], words[going], scores[going])
        if len(ended) >= beam and max(s for s, _ in ended) >= _penalised(scores[going][0], length):
            break
    ended += [] if ended else [(_penalised(now.scores[0], length), now.words[0, 1:])]
    return max(ended, key=lambda found: found[0])[1]


def _begin(model, values, source, beam):
    """Return (attention, beam) before the first word. source: (time, 1)."""
    lengths = np.array([len(source)])
    x = values["source_embedding"][source]
    memory, states, _ = model.encoder.forward(values, x, lengths, 0, keep=1.0)
    xp = array_module(memory)
    attention = Attention(values, xp.repeat(memory, beam, axis=1), np.repeat(lengths, beam), 1)
    scores = np.full(beam, -np.inf)
    scores[0] = 0.0  # at first all hypotheses are the same
    repeated = [(xp.repeat(c, beam, axis=0), xp.repeat(h, beam, axis=0)) for c, h in states]
    return attention, Beam(np.full((beam, 1), START), scores, repeated, xp.zeros((beam, model.units), x.dtype))


def _next_words(model, values, attention, now):
    """Return the log probabilities of each hypothesis' next word, (k, words) float64; update states and context."""
    x = values["target_embedding"][now.words[:, -1]]
    h, now.states, now.context = model.decoder.step(values, x, now.context, now.states, attention)
    logits = to_numpy(h @ values["output"]).astype(np.float64)
    logits -= logits.max(axis=1, keepdims=True)
    return logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))


def _penalised(score, words):
    return score / ((5 + words) / 6)**PENALTY
