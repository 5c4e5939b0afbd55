"""The large array of sampled softmax, (examples, candidates): from logits to exponentials, in place."""

from kernels.arrays import is_float_cuda
from kernels.softmax import cuda, definition


def exponentials(logits, biases, own):
    """Replace logits and own by what softmax needs of them; return the totals (see ``definition.exponentials``). Local.

    Raises ValueError if the shapes do not fit.
    """
    if logits.ndim != 2 or logits.shape != (len(own), len(biases)):
        raise ValueError(f"logits {logits.shape}, biases {biases.shape}, own {own.shape}: "
                         "give them (n, s), (s,) and (n,)")
    quick = is_float_cuda(logits, biases, own) and all(a.flags.c_contiguous for a in (logits, biases, own))
    return (cuda if quick else definition).exponentials(logits, biases, own)


__all__ = ["exponentials"]
