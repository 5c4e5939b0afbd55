"""Repeats a training's first microbatch in PyTorch alone. The loss and the gradients must have the same bits."""

from itertools import chain

import torch

from kernels import RowGradient
from models.frameworks.declared import MOST_BYTES, whole_table
from refimpl.torch.bound import Bound, changed, own_statistics
from refimpl.torch.repeatable import CPU, repeatable
from refimpl.torch.tensors import on_device, to_tensor


def refuse_other(bound: Bound, total, gradients, dense, needed, rows, batch):
    """Raise ValueError, which names the variable, unless PyTorch alone has the same loss and gradients. Local.

    The module itself runs, with look-ups in whole tables: a deep copy would lose hooks, views, and references from
    outside. Nothing is compared on a GPU, or if the tables are larger than MOST_BYTES.
    total: the loss, before it is divided.  gradients: variable -> gradient.  dense: variable -> value.  needed, rows:
    table -> ids, their values.
    """
    if total.device.type != "cpu" or sum(bound.own[name].nbytes for name in bound.parts.sparse) > MOST_BYTES:
        return
    again, theirs = _computed_alone(bound, dense, needed, rows, batch)
    _check("loss", total.detach(), again)
    for name, gradient in theirs.items():
        ours = gradients[name]
        if isinstance(ours, RowGradient):
            ours = whole_table(bound.own[name].shape, ours.ids, ours.rows)
        _check(name, to_tensor(ours), torch.zeros_like(bound.own[name], device=CPU)
               if gradient is None else gradient)


def _computed_alone(bound, dense, needed, rows, batch):
    """Return (loss, variable -> gradient, None for one that the loss does not use) of the unmodified module."""
    bound.write(dense, CPU)  # again: autograd then goes through views of parameters in the same order
    tables = {name: whole_table(bound.own[name].shape, needed[name], rows[name]) for name in bound.parts.sparse}
    with (repeatable(batch.key, CPU), own_statistics(bound.parts.norms), bound.whole(tables) as made,
          changed(chain(*bound.parts.sparse.values()), "sparse", False)):  # a sparse gradient adds in another order
        made = {name: table.requires_grad_() for name, table in made.items()}  # they were on the meta device
        buffers = bound.constants(CPU) | bound.statistics(CPU)
        with bound.holding(CPU, buffers | made, {}):  # also in the backward pass, for gradient checkpointing
            total = bound.loss(bound.module, on_device(batch, CPU))
            (total / batch.normaliser).backward()
        leaves, found = bound.own | made, {}
        for name, leaf in leaves.items():
            found[name], leaf.grad = leaf.grad, None
    return total.detach(), found


def _check(name, ours, theirs):
    """Raise ValueError unless two tensors are equal. NaN equals NaN: the training's own check names it."""
    if torch.allclose(ours, theirs, rtol=0, atol=0, equal_nan=True):
        return
    what = "the loss" if name == "loss" else f"the gradient of {name}"
    raise ValueError(f"{what} of the first microbatch is not the one that PyTorch alone computes for this module: it "
                     f"differs by up to {(ours - theirs).abs().max():.3g}, of {theirs.abs().max():.3g}. The module may "
                     "behave differently while it is trained here, for example because it looks at the type of a "
                     "table's weight. Leave that out, or name its tables in TorchModel(..., dense=[...])")
