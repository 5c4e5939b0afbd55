"""Plain array code for the middle of sampled softmax: the oracle. Never optimised."""

from kernels.arrays import array_module


def own_logits(hidden, weights, biases):
    """Return the logit of each example's target, h . w + b: (n, d), (n, d), (n,) -> (n,)."""
    return array_module(hidden).einsum("nd,nd->n", hidden, weights) + biases


def shares(total, own, scale):
    """Return (loss, share, down), scaled for each example: share = scale / total, exp(own) share = scale + down.

    loss = sum_n (log total_n - own_n) scale_n, in float64.  total, own: see ``exponentials``; all (n,).
    """
    xp = array_module(total)
    loss = ((xp.log(total) - own) * scale).sum(dtype=xp.float64)
    share = scale / total  # probability * scale = share * exponential: applied to (n, d), not to (n, s)
    return loss, share, xp.exp(own) * share - scale


def gradients_of_rows(dhidden, hidden, weights, share, down):
    """Return (down hidden, share hidden), and make dhidden = share dhidden + down weights: all (n, d)."""
    dhidden *= share[:, None]
    dhidden += down[:, None] * weights
    return down[:, None] * hidden, share[:, None] * hidden


def exponentials(logits, biases, own, hit=None):
    """Make logits and own relative to each example's highest logit h_n, in place; return the sums of exponentials.

    h_n = max(own_n, max_s logits_ns + biases_s);  logits_ns = exp(logits_ns + biases_s - h_n);  own_n = own_n - h_n
    total_n = sum_s logits_ns + exp(own_n)

    logits: (n, s).  biases: (s,).  own: (n,), the target's logits.  Result: (n,).
    hit: (n,), the candidate that equals the example's target, or -1. Its logit becomes -inf, so it is left out.
    """
    xp = array_module(logits)
    if hit is not None:
        examples = array_module(hit).flatnonzero(hit >= 0)
        logits[examples, hit[examples]] = -xp.inf
    logits += biases
    highest = xp.maximum(logits.max(axis=1), own)
    xp.exp(xp.subtract(logits, highest[:, None], out=logits), out=logits)
    own -= highest
    return logits.sum(axis=1) + xp.exp(own)
