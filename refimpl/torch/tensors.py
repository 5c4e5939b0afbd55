"""Arrays as tensors and tensors as arrays, in the same memory."""

import warnings
from typing import Any, NamedTuple

import numpy as np
import torch

from kernels import array_module
from models.frameworks.trees import leaves, mapped

ALIGNMENT = 64
"""Bytes. If an address is not a multiple, MKL adds up some products in another order, which gives other bits. Addresses
of values depend on their strategy."""

with warnings.catch_warnings():  # PyTorch warns once that the array is read-only; this is on purpose
    warnings.simplefilter("ignore")
    torch.from_numpy(np.asarray(memoryview(b"read-only")))


class Microbatch(NamedTuple):
    """The arguments of a loss: a microbatch's inputs, targets and weights (or None), tensors or trees of them.

    state: name -> tensor, carried from step to step within an epoch; the loss may read and replace entries.
    metrics: the loss may put sums over the examples here, one for each name in ``TorchModel(..., metrics=[...])``.
    """

    inputs: Any
    targets: Any
    weights: Any
    state: dict[str, torch.Tensor]
    metrics: dict[str, Any]


def to_tensor(array) -> torch.Tensor:
    """Return an array of NumPy or CuPy as a tensor in the same memory, which must not be written to. Local."""
    return torch.from_numpy(array) if isinstance(array, np.ndarray) else torch.from_dlpack(array)


def to_aligned(array) -> torch.Tensor:
    """Return ``to_tensor(array)``, copied if its address is not a multiple of ALIGNMENT. Local."""
    tensor = to_tensor(array)
    return tensor.clone() if tensor.data_ptr() % ALIGNMENT else tensor


def to_array(tensor, xp=np):
    """Return a tensor as an array of ``xp`` in the same memory. Local."""
    tensor = tensor.detach()
    return tensor.numpy() if xp is np else xp.from_dlpack(tensor)


def tensors_in(tree) -> list[torch.Tensor]:
    """Return the tensors of a tree, in order. Local."""
    return [leaf for leaf in leaves(tree) if isinstance(leaf, torch.Tensor)]


def on_device(batch, device) -> Microbatch:
    """Return a ``models.Batch`` as tensors on a device. Local. Objects that are not arrays do not change.

    Its state is a copy, so the loss may write to it.
    """

    def change(leaf):
        is_array = isinstance(leaf, np.ndarray) or array_module(leaf) is not np
        return to_aligned(leaf).to(device) if is_array else leaf

    return Microbatch(*(mapped(part, change) for part in (batch.inputs, batch.targets, batch.weights)),
                      state={name: change(value).clone() for name, value in batch.state.items()}, metrics={})
