"""A module's parameters and running statistics as variables, with their initial values."""

import hashlib

import torch

from models import Constant, Variable
from refimpl.torch.initial import ModuleValues, Normal
from refimpl.torch.parts import STATISTICS


def variables_of(parts, initial) -> list[Variable]:
    """Return the variables of a module: parameters in its order, then running statistics. Local.

    initial: see ``TorchModel``.  Raises ValueError for an unknown name, or if initial values are missing.
    """
    if unknown := sorted(set(initial) - {*parts.dense, *parts.sparse}):
        raise ValueError(f"initial names {', '.join(unknown)}, which is no trained parameter; there are "
                         f"{', '.join((*parts.dense, *parts.sparse))}")
    constants, found = _digest(parts), []
    for name in parts.holders:
        if name in parts.dense or name in parts.sparse:
            parameter = parts.parameter(name)
            start = initial.get(name) or _start(name, parts, parameter, constants)
            found.append(Variable(name, tuple(parameter.shape), sparse=name in parts.sparse, initial=start,
                                  dtype=str(parameter.dtype).removeprefix("torch.")))
    for name, layer in parts.norms.items():
        for key in STATISTICS:
            buffer = layer._buffers[key]
            start = Constant(float(key == "running_var")) if buffer.is_meta else ModuleValues(constants, buffer)
            found.append(Variable(f"{name}.{key}".lstrip("."), tuple(buffer.shape), initial=start, statistic=True,
                                  dtype=str(buffer.dtype).removeprefix("torch."), decays=False, clipped=False))
    return found


def _start(name, parts, parameter, constants):
    """Return the initial values of a parameter without ``initial``."""
    if not parameter.is_meta:
        return ModuleValues(constants, parameter)
    if name not in parts.sparse:
        raise ValueError(f"{name} is on the meta device, and has no values: give it some, TorchModel(..., "
                         f"initial={{{name!r}: Uniform(limit)}}), or make it on the CPU")
    padding, width = parts.sparse[name][0].padding_idx, parameter.shape[1]
    return Normal() if padding is None else Normal(zeros=(padding * width, (padding + 1) * width))


def _digest(parts) -> str:
    """Return the first digits of the SHA-256 of all constants, "none" if there are none."""
    if not parts.constants:
        return "none"
    digest = hashlib.sha256()
    for name in sorted(parts.constants):
        tensor = parts.constant(name).detach().cpu().contiguous()
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        digest.update(tensor.reshape(-1).view(torch.uint8).numpy())
    return digest.hexdigest()[:16]
