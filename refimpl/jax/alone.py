"""Repeats a training's first microbatch with whole tables: the loss and the gradients of the unmodified model.

They are two programs for XLA, which may round differently. So their norms are compared.
"""

import jax
import numpy as np

from kernels import RowGradient
from models.frameworks.declared import MOST_BYTES, whole_table
from refimpl.jax.arrays import to_jax, with_key

CLOSE, NOISE = 1e-3, 1e-5
"""The tolerances of a gradient, relative to its own norm and to the norm of all gradients."""


def refuse_other(model, loss, gradients, dense, fixed, needed, rows, arguments):
    """Raise ValueError, which names the variable, unless the unmodified model has the same loss and gradients. Local.

    model: a ``JaxModel``.  loss, gradients: of the microbatch.  dense: name -> value of what is trained.  fixed: of
    what is not.  needed, rows: table -> ids, their values.  arguments: (the microbatch, its normaliser).
    """
    tables = {v.name: v for v in model.variables if v.sparse}
    if not tables or sum(v.nbytes for v in tables.values()) > MOST_BYTES:
        return

    def share(values, fixed, batch, normaliser):
        result = model._called(model.loss, model.parts.tree({**values, **fixed}), with_key(batch))
        return result[0] / normaliser

    whole = {name: whole_table(v.shape, needed[name], rows[name]) for name, v in tables.items()}
    batch, normaliser = arguments
    again, theirs = jax.jit(jax.value_and_grad(share))(to_jax(dense | whole), fixed, batch, normaliser)
    _check("the loss", np.asarray(loss), np.asarray(again), 0.0)
    every = np.sqrt(sum(np.square(np.asarray(g, np.float64)).sum() for g in theirs.values()))
    for name, gradient in theirs.items():
        ours = gradients[name]
        ours = whole_table(gradient.shape, ours.ids, ours.rows) if isinstance(ours, RowGradient) else ours
        _check(f"the gradient of {name}", ours, np.asarray(gradient), every)


def _check(what, ours, theirs, every):
    """Raise ValueError unless two arrays are close. The training's own check reports values that are not finite."""
    apart, size = (float(np.linalg.norm(np.asarray(a, np.float64).ravel())) for a in (ours - theirs, theirs))
    if not (apart <= CLOSE * size + NOISE * every) and np.isfinite(ours).all():
        raise ValueError(f"{what} of the first microbatch is not the one that JAX alone computes for this model: it "
                         f"differs by {apart:.3g}, of {size:.3g}. The model may look at the type of a table, or look "
                         "up rows that carry no gradient: make the table a dense variable, dense=[...]")
