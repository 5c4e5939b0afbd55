"""Softmax and cross entropy in one, stable for any logits."""

from kernels.arrays import array_module


def cross_entropy(logits, targets):
    """Return (losses, grad): losses_i = log sum_c exp(logits_ic) - logits_i,target_i, and grad = softmax - one-hot.

    logits: (n, classes).  targets: (n,) integers.  losses: (n,), grad of the sum of the losses: (n, classes).
    """
    xp = array_module(logits)
    shifted = logits - logits.max(axis=1, keepdims=True)
    exponentials = xp.exp(shifted)
    total = exponentials.sum(axis=1)
    examples = xp.arange(len(targets))
    losses = xp.log(total) - shifted[examples, targets]
    grad = exponentials / total[:, None]
    grad[examples, targets] -= 1
    return losses, grad
