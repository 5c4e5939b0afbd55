"""Softmax and cross entropy in one function, stable for any logits; and the results of an evaluation."""

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


def divided_cross_entropy(logits, targets, normaliser):
    """Return (sum of the losses / normaliser, its gradient) of one or more examples; see ``cross_entropy``. Local."""
    losses, grad = cross_entropy(logits, targets)
    grad /= grad.dtype.type(normaliser)
    return losses.sum(dtype="float64") / normaliser, grad


def evaluated(logits, targets) -> dict:
    """Return {"loss": sum, "count": n, "correct": k} for logits (n, classes) and targets (n,) integers. Local."""
    losses, _ = cross_entropy(logits, targets)
    return {"loss": float(losses.sum(dtype="float64")), "count": len(targets),
            "correct": int((logits.argmax(axis=1) == targets).sum())}
