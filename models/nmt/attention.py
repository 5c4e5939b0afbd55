"""Normalised additive attention (Bahdanau et al. 2015; Salimans, Kingma 2016), fed back into the decoder's input.

    score_ts = g v/|v| . tanh(h_t W_query + memory_s W_memory + b);  weights_t = softmax of score_t over the sentence
    context_t = sum_s weights_ts memory_s, a part of the input of every layer (of the lowest layer in step t + 1)
"""

import math

from kernels.arrays import array_module
from kernels.attention import attention_scores, attention_scores_backward, masked_softmax, masked_softmax_backward
from models.nmt.layers import LIMIT
from models.variable import Constant, Uniform, Variable


def attention_variables(units, dtype):
    """Return 2 u^2 + 2 u + 1 elements: memory, query (u, u), v (u,), g (1,), bias (u,)."""
    weight = {"initial": Uniform(LIMIT), "dtype": dtype}
    return [Variable("attention/memory", (units, units), **weight),
            Variable("attention/query", (units, units), **weight), Variable("attention/v", (units,), **weight),
            Variable("attention/g", (1,), initial=Constant(math.sqrt(1 / units)), dtype=dtype, decays=False),
            Variable("attention/bias", (units,), dtype=dtype, decays=False)]


class Attention:
    """The attention of one batch: the ``Feedback`` of the lowest LSTM, and the contexts for the upper layers.

    memory: (source time, sentences, units), the encoder's.  lengths: (sentences,) on the host.  time: the decoder's.
    dropout: (time, sentences, units), the dropout factors of the lowest layer's input; None: all is kept.
    contexts: (time, sentences, units).  weights: (time, sentences, source time), 0 past a sentence's end.
    dcontexts: as contexts, the gradient from the upper layers; set it before you call ``backward``.
    """

    def __init__(self, dense, memory, lengths, time):
        xp, (source, sentences, units) = array_module(memory), memory.shape
        self.dense, self.columns, self.time, self.dropout = dense, units, time, None
        self.memory = xp.ascontiguousarray(memory.transpose(1, 0, 2))
        self.keys = self.memory @ dense["attention/memory"] + dense["attention/bias"]
        self.lengths = xp.asarray(lengths)
        v = dense["attention/v"]
        self.direction, self.inverse_norm = v, 1 / xp.sqrt((v * v).sum())
        self.scale = v * (dense["attention/g"] * self.inverse_norm)
        self.contexts, self.queries = (xp.zeros((time, sentences, units), memory.dtype) for _ in range(2))
        self.weights = xp.zeros((time, sentences, source), memory.dtype)
        self.dcontexts, self.dqueries = None, xp.zeros(self.queries.shape, memory.dtype)
        self.dkeys = xp.zeros(self.keys.shape, memory.dtype)
        self.dscale = xp.zeros((sentences, units), memory.dtype)

    def forward(self, t, h):
        """Return the context of step t for step t + 1: (sentences, units). See ``kernels.lstm.Feedback``."""
        self.queries[t] = h @ self.dense["attention/query"]
        scores = attention_scores(self.queries[t], self.keys, self.scale, self.lengths)
        self.weights[t] = masked_softmax(scores, self.lengths)
        self.contexts[t] = (self.weights[t][:, None] @ self.memory)[:, 0]
        return self.dropped(t, self.contexts[t])

    def backward(self, t, d):
        """Return the gradient with respect to h_t. d: with respect to the result of ``forward``, or None."""
        if d is not None:
            self.dcontexts[t] += self.dropped(t, d)
        dweights = (self.memory @ self.dcontexts[t][:, :, None])[:, :, 0]
        dscores = masked_softmax_backward(dweights, self.weights[t])
        self.dqueries[t] = attention_scores_backward(dscores, self.queries[t], self.keys, self.scale, self.dkeys,
                                                     self.dscale)
        return self.dqueries[t] @ self.dense["attention/query"].T

    def dropped(self, t, x):
        """Return x times the dropout factors of step t + 1."""
        return x if self.dropout is None or t + 1 == self.time else x * self.dropout[t + 1]

    def finish(self, h, gradients):
        """Return the gradient of memory; add the variables' gradients to ``gradients``. Call it after all ``backward``.

        h: (time, sentences, units), of the lowest layer.
        """
        xp, units = array_module(h), self.columns
        dkeys, memory = self.dkeys.reshape(-1, units), self.memory.reshape(-1, units)
        gradients["attention/memory"] = memory.T @ dkeys
        gradients["attention/bias"] = dkeys.sum(axis=0)
        gradients["attention/query"] = h.reshape(-1, units).T @ self.dqueries.reshape(-1, units)
        dscale, unit = self.dscale.sum(axis=0), self.direction * self.inverse_norm
        along = (dscale * unit).sum()
        gradients["attention/g"] = along.reshape(1)
        gradients["attention/v"] = (dscale - unit * along) * (self.dense["attention/g"] * self.inverse_norm)
        dmemory = self.weights.transpose(1, 2, 0) @ self.dcontexts.transpose(1, 0, 2)
        dmemory += self.dkeys @ self.dense["attention/memory"].T
        return xp.ascontiguousarray(dmemory.transpose(1, 0, 2))
