"""Plain array code for additive attention: the oracle. Never optimised."""

from kernels.arrays import array_module


def attention_scores(query, keys, scale, lengths):
    """Return score_bs = sum_u scale_u tanh(query_bu + keys_bsu) for s < lengths_b, else 0: (sentences, time).

    query: (sentences, units).  keys: (sentences, time, units).  scale: (units,).  lengths: (sentences,) ints.
    """
    xp = array_module(query, keys)
    scores = (xp.tanh(query[:, None] + keys) * scale).sum(axis=2)
    return xp.where(_inside(scores, lengths), scores, 0)


def attention_scores_backward(dscores, query, keys, scale, dkeys, dscale):
    """Return the gradient of query; add the gradients of keys and scale to dkeys and dscale.

    dscores: (sentences, time), 0 past a sentence's end.  dkeys: as keys.
    dscale: (sentences, units), one for each sentence; their sum is the gradient of scale.
    """
    xp = array_module(query, keys)
    out = xp.tanh(query[:, None] + keys)
    dscale += (dscores[:, :, None] * out).sum(axis=1)
    inner = dscores[:, :, None] * scale * (1 - out * out)
    dkeys += inner
    return inner.sum(axis=1)


def masked_softmax(scores, lengths):
    """Return weight_bs = exp(score_bs) / sum_r exp(score_br) over s, r < lengths_b, and 0 past the end.

    scores, weights: (sentences, time).  lengths: (sentences,) ints, at least 1.
    """
    xp = array_module(scores)
    inside = _inside(scores, lengths)
    highest = xp.where(inside, scores, -xp.inf).max(axis=1, keepdims=True)
    shares = xp.where(inside, xp.exp(xp.where(inside, scores - highest, 0)), 0)
    return shares / shares.sum(axis=1, keepdims=True)


def masked_softmax_backward(dweights, weights):
    """Return dscore_bs = weight_bs (dweight_bs - sum_r weight_br dweight_br): (sentences, time)."""
    return weights * (dweights - (weights * dweights).sum(axis=1, keepdims=True))


def _inside(scores, lengths):
    """Return which places are before the end of their sentence: (sentences, time) bool."""
    return array_module(lengths).arange(scores.shape[1])[None] < lengths[:, None]
