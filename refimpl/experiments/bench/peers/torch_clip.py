"""Clipping by the global norm as a PyTorch programmer would write it, where some gradients are sparse."""

import torch
from torch import nn


@torch.no_grad()
def clip(parameters, largest: float):
    """Scale all gradients so that their norm is at most ``largest``; the sparse ones are coalesced here, once. Local.
    """
    values = []
    for parameter in parameters:
        if parameter.grad.is_sparse:
            parameter.grad = parameter.grad.coalesce()
            values.append(parameter.grad.values())
        else:
            values.append(parameter.grad)
    norm = nn.utils.get_total_norm(values).item()
    if norm > largest:
        torch._foreach_mul_(values, largest / norm)
