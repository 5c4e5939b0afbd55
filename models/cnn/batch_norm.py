"""Batch normalisation over the microbatch, with running statistics for evaluation (Ioffe and Szegedy 2015).

A microbatch is normalised with its own statistics. They depend on no other microbatch, and so on no number of ranks.
Evaluation uses running statistics, which are statistic variables. A microbatch's "gradient" for such a variable is its
share of the step's estimate.
"""

from kernels.each import scaled_each
from kernels.norm import channel_statistics, normalize, normalize_backward
from models.variable import Constant, Variable

EPSILON = 1e-5


def norm_variables(name, channels, dtype):
    """Return scale and offset, trained without weight decay, and the running mean and variance: (channels,) each."""
    trained = {"shape": (channels,), "dtype": dtype, "decays": False}
    running = {**trained, "clipped": False, "statistic": True}
    return [Variable(f"{name}.scale", initial=Constant(1.0), **trained), Variable(f"{name}.offset", **trained),
            Variable(f"{name}.mean", **running), Variable(f"{name}.variance", initial=Constant(1.0), **running)]


def norm_forward(x, dense, name, relu=False, running=False):
    """Return (y, saved): every channel of x with mean 0 and variance 1, times scale plus offset; ``relu``: at least 0.

    running: normalise with the running statistics, as evaluation does; then an image's result depends on it alone.
    """
    mean, variance = (dense[f"{name}.mean"], dense[f"{name}.variance"]) if running else channel_statistics(x)
    y = normalize(x, mean, variance, dense[f"{name}.scale"], dense[f"{name}.offset"], EPSILON, relu)
    return y, (x, y if relu else None, mean, variance)


def statistics_shares(saved, share) -> dict:
    """Return the "gradients" of all statistics: the share of this microbatch in the step's estimate of each.

    saved: name -> what ``norm_forward`` saved.  share: this microbatch's examples / the global batch's examples. The
    sum over the microbatches is their weighted mean.
    """
    found = {f"{name}.{part}": value for name, (_, _, mean, variance) in saved.items()
             for part, value in (("mean", mean), ("variance", variance))}
    return dict(zip(found, scaled_each(list(found.values()), share)))


def norm_backward(grad, saved, dense, name, gradients, shares, relu=False):
    """Return the gradient of x; put the gradients of scale and offset and the shares of statistics into ``gradients``.

    shares: see ``statistics_shares``.
    """
    x, y, mean, variance = saved
    grad_x, gradients[f"{name}.scale"], gradients[f"{name}.offset"] = normalize_backward(
        grad, x, y, mean, variance, dense[f"{name}.scale"], EPSILON, relu)
    for part in ("mean", "variance"):
        gradients[f"{name}.{part}"] = shares[f"{name}.{part}"]
    return grad_x
