"""Plain array code for the middle of sampled softmax: the oracle. Never optimised."""

from kernels.arrays import array_module


def exponentials(logits, biases, own):
    """Make, in place, each example's numbers relative to its highest logit h_n; return the sum of all exponentials.

    h_n = max(own_n, max_s logits_ns + biases_s);  logits_ns = exp(logits_ns + biases_s - h_n);  own_n = own_n - h_n
    total_n = sum_s logits_ns + exp(own_n)

    logits: (n, s), -inf where a candidate does not count.  biases: (s,).  own: (n,), the target's.  Result: (n,).
    """
    xp = array_module(logits)
    logits += biases
    highest = xp.maximum(logits.max(axis=1), own)
    xp.exp(xp.subtract(logits, highest[:, None], out=logits), out=logits)
    own -= highest
    return logits.sum(axis=1) + xp.exp(own)
