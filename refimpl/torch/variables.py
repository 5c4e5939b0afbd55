"""A module's parameters and running statistics as variables, with their initial values."""

import math
from dataclasses import dataclass

import numpy as np
import torch

from kernels.random import uniform
from models import Constant, Variable
from models.frameworks.initial import GivenValues, digest_of
from refimpl.torch.parts import STATISTICS


@dataclass(frozen=True)
class Normal:
    """Element i starts at deviation * sqrt(-2 log(1 - u_2i)) cos(2 pi u_2i+1), u uniform in [0, 1) (Box, Muller 1958).

    zeros: (first, end) of elements that start at 0: a padding row.
    """

    deviation: float = 1.0
    zeros: tuple[int, int] = (0, 0)

    def elements(self, key, start, count):
        """Return elements ``start`` to ``start + count - 1`` of random sequence ``key``: (count,) float64. Local."""
        radius, angle = np.ascontiguousarray(uniform(key, 2 * count, 2 * start).reshape(count, 2).T)
        values = self.deviation * np.sqrt(-2 * np.log1p(-radius)) * np.cos(2 * math.pi * angle)
        first, end = (min(max(place - start, 0), count) for place in self.zeros)
        values[first:end] = 0
        return values


def variables_of(parts, initial, groups=()) -> list[Variable]:
    """Return the variables of a module: parameters in its order, then running statistics. Local.

    initial, groups: see ``TorchModel``.  Raises ValueError for an unknown name, or if initial values are missing.
    """
    if unknown := sorted(set(initial) - {*parts.dense, *parts.sparse}):
        raise ValueError(f"initial names {', '.join(unknown)}, which is no trained parameter; there are "
                         f"{', '.join((*parts.dense, *parts.sparse))}")
    constants, found, own = _digest(parts), [], settings_of(parts, groups)
    for name in parts.holders:
        if name in parts.dense or name in parts.sparse:
            parameter = parts.parameter(name)
            start = initial.get(name) or _start(name, parts, parameter, constants)
            found.append(Variable(name, tuple(parameter.shape), sparse=name in parts.sparse, initial=start,
                                  dtype=str(parameter.dtype).removeprefix("torch."), **own.get(name, {})))
    for name, layer in parts.norms.items():
        for key in STATISTICS:
            buffer = layer._buffers[key]
            start = Constant(float(key == "running_var")) if buffer.is_meta else GivenValues(constants, buffer)
            found.append(Variable(f"{name}.{key}".lstrip("."), tuple(buffer.shape), initial=start, statistic=True,
                                  dtype=str(buffer.dtype).removeprefix("torch."), decays=False, clipped=False,
                                  learning_rate=float(layer.momentum)))
    for name in parts.moving:
        buffer = getattr(*parts.moving[name])
        found.append(Variable(name, tuple(buffer.shape), initial=GivenValues(constants, buffer), statistic=True,
                              dtype=str(buffer.dtype).removeprefix("torch."), decays=False, clipped=False,
                              learning_rate=1.0))
    return found


GROUPS = {"lr": "learning_rate", "weight_decay": "weight_decay"}


def settings_of(parts, groups) -> dict[str, dict]:
    """Return parameter -> its own fields of ``Variable``, by PyTorch's parameter groups. Local.

    groups: [{"params": parameters, or names, "lr": rate, "weight_decay": decay}, ...]; the options decide what a group
    leaves out.  Raises ValueError unless each trained parameter is in exactly one group, or if a group has anything
    else.
    """
    names = {id(parts.parameter(name)): name for name in (*parts.dense, *parts.sparse)}
    found: dict[str, dict] = {}
    for group in groups:
        if more := sorted(set(group) - {"params", "name", *GROUPS}):
            raise ValueError(f"a group says {', '.join(more)}: a group may have params, lr and weight_decay; the rest "
                             "is the same for all, Options(optimizer_options=...), or in the optimizer of a loop of "
                             "your own, refimpl.torch.Trainer")
        for given in [group["params"]] if isinstance(group["params"], (str, torch.Tensor)) else group["params"]:
            if isinstance(given, torch.Tensor) and not given.requires_grad:
                continue
            name = given if isinstance(given, str) else names.get(id(given[1] if isinstance(given, tuple) else given))
            if name not in names.values() or name in found:
                what = f"{name} is in two groups" if name in found else (
                    f"a group has {name or 'a parameter'!r}, which is no trained parameter of the module")
                raise ValueError(f"{what}: each of module.named_parameters() must be in one")
            found[name] = {GROUPS[key]: group[key] for key in GROUPS if key in group}
    if groups and (missing := [name for name in names.values() if name not in found]):
        raise ValueError(f"{', '.join(missing)} is in no group, and PyTorch would not train it: add it to one, or say "
                         "requires_grad_(False)")
    return found


def _start(name, parts, parameter, constants):
    """Return the initial values of a parameter without ``initial``."""
    if not parameter.is_meta:
        return GivenValues(constants, parameter)
    if name not in parts.sparse:
        raise ValueError(f"{name} is on the meta device, and has no values: give it some, TorchModel(..., "
                         f"initial={{{name!r}: Uniform(limit)}}), or make it on the CPU")
    padding, width = parts.sparse[name][0].padding_idx, parameter.shape[1]
    return Normal() if padding is None else Normal(zeros=(padding * width, (padding + 1) * width))


def _digest(parts) -> str:
    """See ``digest_of``."""
    tensors = {name: parts.constant(name).detach().cpu().contiguous() for name in sorted(parts.constants)}
    return digest_of((f"{name} {tensor.dtype} {tuple(tensor.shape)}", tensor.reshape(-1).view(torch.uint8).numpy())
                     for name, tensor in tensors.items())
