"""The output: a full softmax over all target words, with label smoothing (Szegedy et al. 2016) if asked for.

    loss = log sum_k exp(l_k) - (1 - s) l_y - s mean_k l_k,   l = h W,   s: smoothing
"""

import numpy as np

from kernels.arrays import array_module
from kernels.softmax import exponentials, shares


def smoothed_cross_entropy(hidden, weight, targets, scale, smoothing=0.0):
    """Return (loss, dhidden, dweight): the scaled sum of the losses, in float64, and its gradients. Local.

    hidden: (n, d).  weight: (d, words).  targets: (n,) int64 on the host.  scale: (n,), weight of each loss.
    """
    xp, words = array_module(hidden), weight.shape[1]
    logits, place = hidden @ weight, (xp.asarray(np.arange(len(targets))), xp.asarray(targets))
    own = logits[place]
    to_all = smoothing * (own - logits.mean(axis=1)) if smoothing else None
    total = exponentials(logits, xp.zeros(words, logits.dtype), own, place[1])  # in place: logits hold them now
    loss, share, down = shares(total, own, scale)
    logits *= share[:, None]
    logits[place] = down
    if smoothing:
        loss = loss + (to_all * scale).sum(dtype=xp.float64)
        logits -= (scale * logits.dtype.type(smoothing / words))[:, None]
        logits[place] += scale * logits.dtype.type(smoothing)
    return loss, logits @ weight.T, hidden.T @ logits
