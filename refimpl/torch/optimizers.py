"""PyTorch's optimizers in a training. They update dense parameters by their ``step``; our kernels update tables' rows.

A table may have SGD without momentum, Adagrad or SparseAdam, which update only the rows of a gradient. The others
update all rows in each step, also those that no rank has looked up.
"""

import inspect
import math

import torch

from kernels.update import OPTIMIZERS


def optimizers_of(model, given) -> list:
    """Return the optimizers of a ``TorchModel``; [] if ``Options`` has its optimizer. Local.

    given: a ``torch.optim.Optimizer``, a list of some, or None.
    Raises ValueError, with a remedy, for one that cannot be used here.
    """
    found = list(given) if isinstance(given, (list, tuple)) else [] if given is None else [given]
    if found and model.groups:
        raise ValueError("the model and the optimizer of torch.optim both have groups: give groups only to the "
                         "optimizer")
    names, holder = {id(parameter): name for name, parameter in model.bound.own.items()}, {}
    for optimizer in found:
        if not isinstance(optimizer, torch.optim.Optimizer):
            raise ValueError(f"the optimizer is {optimizer!r:.80}: give one of torch.optim, made of "
                             "module.parameters(), or name one of ours, options=Options(optimizer=...)")
        kind = type(optimizer).__name__
        if inspect.signature(optimizer.step).parameters["closure"].default is inspect.Parameter.empty:
            raise ValueError(f"{kind} computes the loss again within a step: take one whose step() needs no closure, "
                             "for example AdamW")
        for parameter in (parameter for group in optimizer.param_groups for parameter in group["params"]):
            if parameter.requires_grad and id(parameter) not in names:
                raise ValueError(f"{kind} has a parameter of shape {tuple(parameter.shape)} that the module lacks: "
                                 "make it of module.parameters(), after the module's layers were replaced or moved")
            if holder.setdefault(id(parameter), optimizer) is not optimizer:
                raise ValueError(f"{names[id(parameter)]} is in two optimizers: leave it to one of them")
    for name, (optimizer, group) in groups_of(model, found).items():
        if name in model.parts.sparse:
            row_step(name, optimizer, group, 1)
    return found


def groups_of(model, optimizers) -> dict:
    """Return name -> (optimizer, its group) of each trained parameter that has one. Local."""
    found = {id(parameter): (optimizer, group) for optimizer in optimizers for group in optimizer.param_groups
             for parameter in group["params"]}
    return {name: found[id(parameter)] for name, parameter in model.bound.own.items() if id(parameter) in found}


def row_step(name, optimizer, group, step: int):
    """Return (kernel, rate, its options) of step ``step``, from 1, of a table's rows. Local.

    Raises ValueError for an optimizer that would move other rows, too.
    """
    kind, rate = type(optimizer), float(group["lr"])
    extra = [f"{key}={group[key]}" for key in ("momentum", "weight_decay", "nesterov", "maximize") if group.get(key)]
    if kind is torch.optim.SGD and not extra:
        return "sgd", rate, {}
    if kind is torch.optim.Adagrad and not extra:
        return "adagrad", rate / (1 + (step - 1) * group["lr_decay"]), {"epsilon": group["eps"]}
    if kind is torch.optim.SparseAdam and not extra:
        beta1, beta2 = map(float, group["betas"])
        epsilon = group["eps"] / math.sqrt(1 - beta2**step)  # our kernel adds it after the correction
        return "adam", rate, {"beta1": beta1, "beta2": beta2, "epsilon": epsilon}
    raise ValueError(f"{name} is a table, and {kind.__name__}{' with ' * bool(extra)}{', '.join(extra)} changes all "
                     "its rows in each step: give it an optimizer of its own that changes only rows with a gradient, "
                     "optimizer=[..., torch.optim.SparseAdam([table.weight])], SGD or Adagrad, without weight_decay "
                     f"or momentum; or make it a dense variable, dense=[{name!r}]")


def row_state(name, optimizer, group) -> dict:
    """Return slot -> initial value of what an optimizer keeps for each element of a table. Local."""
    state = dict(OPTIMIZERS[row_step(name, optimizer, group, 1)[0]].state)
    if "accumulator" in state:
        state["accumulator"] = group["initial_accumulator_value"]
    return state


def said_of(optimizers) -> list:
    """Return the optimizers as JSON values, which must be the same on all ranks. Local."""
    return [[type(optimizer).__name__, [{key: f"{len(value)} parameters" if key == "params" else repr(value)
                                         for key, value in group.items()} for group in optimizer.param_groups]]
            for optimizer in optimizers]
