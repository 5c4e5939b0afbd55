"""The elementwise parts of sampled softmax: from logits to exponentials, in place, and parts of the gradients."""

from kernels.arrays import is_float_cuda
from kernels.softmax import cuda, definition


def own_logits(hidden, weights, biases):
    """Return the logit of each example's target (see ``definition.own_logits``). Local."""
    return _version(hidden, weights, biases).own_logits(hidden, weights, biases)


def exponentials(logits, biases, own, hit=None):
    """Replace logits and own in place; return the sums of the exponentials (see ``definition.exponentials``). Local.

    hit: (n,) int64, on the logits' device: the candidate that equals the example's target and is left out, or -1.
    Raises ValueError if the shapes do not match.
    """
    if logits.ndim != 2 or logits.shape != (len(own), len(biases)):
        raise ValueError(f"logits {logits.shape}, biases {biases.shape}, own {own.shape}: "
                         "give them (n, s), (s,) and (n,)")
    return _version(logits, biases, own).exponentials(logits, biases, own, hit)


def shares(total, own, scale):
    """Return (loss, share, down) of the examples (see ``definition.shares``). Local."""
    return _version(total, own, scale).shares(total, own, scale)


def gradients_of_rows(dhidden, hidden, weights, share, down):
    """Finish dhidden; return the rows' gradients of targets, and factors for candidates (see ``definition``). Local."""
    arrays = dhidden, hidden, weights, share, down
    return _version(*arrays).gradients_of_rows(*arrays)


def _version(*arrays):
    quick = is_float_cuda(*arrays) and all(a.flags.c_contiguous for a in arrays)
    return cuda if quick else definition
