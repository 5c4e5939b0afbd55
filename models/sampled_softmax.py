"""Sampled softmax: cross-entropy over the target and a few candidate classes (Jean et al. 2015, section 3).

For hidden state h with target y and candidates S:
    l_k = h . W_k + b_k - log E[count of k]                 for k in {y} and S without y (accidental hits removed)
    loss = log sum_k exp(l_k) - l_y
"""

from kernels import array_module, take_rows
from kernels.softmax import exponentials, gradients_of_rows, own_logits, shares


def sampled_softmax(hidden, target_weights, target_biases, candidate_weights, candidate_biases, hit, scale):
    """Return (loss, gradients): scaled sum of the examples' losses; gradients of the first five arguments. Local.

    hidden, target_weights: (n, d), the row of each example's target.  candidate_weights: (s, d).
    target_biases: (n,), candidate_biases: (s,), both minus the log of the expected count.
    hit: (n,) int64, the candidate that equals the example's target, or -1.
    scale: (n,), weight of each example's loss.  loss: a number on the device of ``hidden``, summed in float64.
    """
    logits = hidden @ candidate_weights.T
    own = own_logits(hidden, target_weights, target_biases)
    total = exponentials(logits, candidate_biases, own, hit)  # in place: logits hold the exponentials now
    loss, share, down = shares(total, own, scale)
    dhidden = logits @ candidate_weights
    dtargets, shared = gradients_of_rows(dhidden, hidden, target_weights, share, down)
    return loss, (dhidden, dtargets, down, logits.T @ shared, share @ logits)


def softmax_losses(hidden, weight, bias, targets, block: int = 2**21):
    """Return each example's cross-entropy under the full softmax: (n,) float64. Local.

    hidden: (n, d).  weight: (V, d).  bias: (V, 1).  targets: (n,) classes, on the host.
    The vocabulary is processed in pieces, so that at most about ``block`` logits exist at a time.
    """
    xp = array_module(hidden)
    n = len(targets)
    highest, total = xp.full(n, -xp.inf, hidden.dtype), xp.zeros(n, xp.float64)
    rows = max(1, block // max(n, 1))
    for start in range(0, len(weight), rows):
        logits = hidden @ weight[start:start + rows].T
        logits += bias[start:start + rows, 0]
        higher = xp.maximum(highest, logits.max(axis=1))
        logits -= higher[:, None]
        total *= xp.exp((highest - higher).astype(xp.float64))
        total += xp.exp(logits, out=logits).sum(axis=1, dtype=xp.float64)
        highest = higher
    own = xp.einsum("nd,nd->n", hidden, take_rows(weight, targets)) + take_rows(bias, targets)[:, 0]
    return xp.log(total) + highest.astype(xp.float64) - own
