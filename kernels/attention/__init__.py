"""Additive attention (Bahdanau et al. 2015): a decoder's state scores the encoder's states; weights are their softmax.

    scores = v . tanh(query + keys);  weights = softmax(scores) within each sentence;  context = weights @ memory

The caller computes the products with memory, one product for a whole sequence.
"""

from kernels.arrays import version_for
from kernels.attention import cuda, definition, fast


def attention_scores(query, keys, scale, lengths):
    """Return (sentences, time) scores, 0 past a sentence's end (see ``definition.attention_scores``). Local.

    lengths: (sentences,) int64, on the device of the other arrays.
    """
    return version_for(fast, cuda, definition, query, keys, scale).attention_scores(query, keys, scale, lengths)


def attention_scores_backward(dscores, query, keys, scale, dkeys, dscale):
    """Return dquery, and add to dkeys and dscale (see ``definition.attention_scores_backward``). Local."""
    arrays = dscores, query, keys, scale, dkeys, dscale
    return version_for(fast, cuda, definition, *arrays).attention_scores_backward(*arrays)


def masked_softmax(scores, lengths):
    """Return the softmax of each row's first ``lengths`` entries, else 0 (see ``definition.masked_softmax``). Local."""
    return version_for(fast, cuda, definition, scores).masked_softmax(scores, lengths)


def masked_softmax_backward(dweights, weights):
    """Return the gradient with respect to the scores (see ``definition.masked_softmax_backward``). Local."""
    return version_for(fast, cuda, definition, dweights, weights).masked_softmax_backward(dweights, weights)
