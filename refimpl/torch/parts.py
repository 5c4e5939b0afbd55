"""The parts of a module: dense parameters, tables, running statistics, and constants; or why it cannot be trained.

A parameter that only ``nn.Embedding`` and ``nn.EmbeddingBag`` layers hold is a sparse variable. If another layer holds
it, too (a tied output layer), it is dense, because its whole gradient is used.
"""

from dataclasses import dataclass

import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

from refimpl.torch.tensors import ALIGNMENT

TABLES = (nn.Embedding, nn.EmbeddingBag)
STATISTICS = ("running_mean", "running_var")


@dataclass(frozen=True)
class Parts:
    """The parts of a module, by their names in the module.

    holders: parameter -> [(module, attribute)], all that hold it.  dense: trained parameters that are dense variables.
    sparse: table -> its layers.  norms: name -> batch norm layer, if it keeps running statistics.
    constants: buffer or frozen parameter -> (module, attribute), without buffers of ``norms``.
    moving: buffer that the forward pass changes -> (module, attribute), of those that the user names.
    """

    holders: dict[str, list]
    dense: list[str]
    sparse: dict[str, list]
    norms: dict[str, nn.Module]
    constants: dict[str, tuple]
    moving: dict[str, tuple]

    def parameter(self, name) -> torch.Tensor:
        """Return the module's current parameter. Local."""
        owner, attribute = self.holders[name][0]
        return getattr(owner, attribute)

    def made(self, name, device) -> torch.Tensor:
        """Create a parameter of the meta device on another device, without values, and return it. Local."""
        made = nn.Parameter(torch.empty_like(self.parameter(name), device=device))
        for owner, attribute in self.holders[name]:
            setattr(owner, attribute, made)
        return made

    def constant(self, name) -> torch.Tensor:
        """Return the module's current constant. Local."""
        owner, attribute = self.constants[name]
        return getattr(owner, attribute)


def parts_of(module, dense=(), moving=()) -> Parts:
    """Return the parts of a module. Local. Raises ValueError, with a remedy, for a part that cannot be trained here.

    dense: tables that are to be dense variables.  moving: buffers that the forward pass changes.
    """
    _check_module(module)
    modules = dict(module.named_modules())
    names = {id(parameter): name for name, parameter in module.named_parameters()}
    holders: dict[str, list] = {name: [] for name in names.values()}
    for owner in modules.values():
        for attribute, parameter in owner._parameters.items():
            if parameter is not None:
                holders[names[id(parameter)]].append((owner, attribute))
    trained = {name for name, parameter in module.named_parameters() if parameter.requires_grad}
    if unknown := sorted(set(dense) - set(names.values())):
        raise ValueError(f"dense names {', '.join(unknown)}, which is no parameter of {type(module).__name__}; it has "
                         f"{', '.join(names.values())}")
    sparse = {name: [owner for owner, _ in held] for name, held in holders.items()
              if name in trained and name not in dense and all(_is_table(*place) for place in held)}
    norms = {name: layer for name, layer in modules.items()
             if isinstance(layer, _BatchNorm) and layer.training and layer.running_mean is not None}
    kept = {id(buffer) for layer in norms.values() for buffer in layer._buffers.values()}
    constants = {f"{name}.{key}".lstrip("."): (owner, key) for name, owner in modules.items()
                 for key, buffer in owner._buffers.items() if buffer is not None and id(buffer) not in kept}
    if unknown := [name for name in moving if not (name in constants and constants[name][0]._buffers[
            constants[name][1]].is_floating_point())]:
        raise ValueError(f"buffers names {', '.join(unknown)}, which is no buffer of floats that the training leaves "
                         f"alone; there are {', '.join(constants) or 'none'}")
    moved = {name: constants.pop(name) for name in moving}
    constants |= {name: held[0] for name, held in holders.items() if name not in trained}
    parts = Parts(holders, [name for name in holders if name in trained and name not in sparse], sparse, norms,
                  constants, moved)
    _check_parts(parts)
    return parts


def _is_table(layer, attribute) -> bool:
    """Return whether this is the weight of one of PyTorch's own tables.

    A subclass with its own look-up is not, and neither is a layer whose weight is computed from other parameters.
    """
    return attribute == "weight" and isinstance(layer, TABLES) and "forward" not in vars(layer) and any(
        type(layer).forward is kind.forward for kind in TABLES)


def _check_module(module):
    if isinstance(module, type) or not isinstance(module, nn.Module):
        raise ValueError(f"the module is {module!r:.80}: give TorchModel a torch.nn.Module")
    if isinstance(module, (nn.DataParallel, nn.parallel.DistributedDataParallel)):
        raise ValueError(f"the module is wrapped in {type(module).__name__}: give TorchModel module.module, "
                         "because refimpl exchanges the gradients itself")
    for name, part in module.named_modules():
        if isinstance(part, torch.jit.ScriptModule):
            raise ValueError(f"{name or 'the module'} is a ScriptModule, whose parameters cannot be reached: give it "
                             "as it was before torch.jit.script")
    for name, tensor in (*module.named_parameters(), *module.named_buffers()):
        if nn.parameter.is_lazy(tensor):
            raise ValueError(f"{name} is a lazy parameter, whose shape is not known yet: call the module once on a "
                             "batch before it is given to TorchModel")
    for name, parameter in module.named_parameters():
        if parameter.requires_grad and parameter.dtype not in (torch.float32, torch.float64):
            raise ValueError(f"{name} is {str(parameter.dtype).removeprefix('torch.')}: trainings are of float32 or "
                             "float64; say module.float(), or name.requires_grad_(False) where it is not trained")


def _check_parts(parts: Parts):
    for name in (*parts.dense, *parts.sparse):
        for layer in (owner for owner, _ in parts.holders[name] if isinstance(owner, TABLES)):
            _check_table(name, layer, name in parts.sparse)
    for name, layer in parts.norms.items():
        if isinstance(layer, nn.SyncBatchNorm):
            raise ValueError(f"{name} is SyncBatchNorm, which exchanges between ranks itself: take BatchNorm; each "
                             "microbatch is normalised by itself, on any number of ranks")
        if layer.momentum is None:
            raise ValueError(f"{name} has momentum=None, the mean over all steps: here each step changes running "
                             "statistics by a fixed part; say momentum=0.1, or track_running_stats=False")
    for name in parts.constants:
        if parts.constant(name).is_meta:
            raise ValueError(f"{name} is on the meta device, and not trained, so its values are not known: make it "
                             "on the CPU")


def _check_table(name, layer, sparse):
    if layer.max_norm is not None:
        raise ValueError(f"{name} has max_norm={layer.max_norm}: it would change rows while they are looked up, on "
                         "each rank its own; leave max_norm out, and clip by the global norm (clip_norm)")
    if layer.scale_grad_by_freq:
        raise ValueError(f"{name} has scale_grad_by_freq=True: frequencies are those of a microbatch, and gradients "
                         "would depend on how the batch is cut; leave it out")
    if layer.sparse and not sparse:
        raise ValueError(f"{name} has sparse=True, and is used as a dense variable (it is named in dense, or held by "
                         "another layer, too): say sparse=False")


def refuse_shared(module, parts: Parts):
    """Raise ValueError, which names both tensors, for two parameters or a table's view in shared memory. Local.

    Two parameters would be trained separately. A buffer, or a view of a table, would keep its old values, because a
    table's rows are trained elsewhere. A view of a dense parameter has the values of the step, unless the parameter is
    moved to a multiple of ALIGNMENT (``Bound``).
    """
    trained = {name: parts.parameter(name) for name in (*parts.dense, *parts.sparse)}
    registered = trained | {name: parts.constant(name) for name in parts.constants}
    lie = sorted((*place, name) for name, tensor in registered.items() if (place := _place(tensor)))
    for (_, end, one), (begin, _, other) in zip(lie, lie[1:]):
        if begin < end and (one in trained or other in trained):
            raise ValueError(f"{one} and {other} are in one memory, but would be trained separately. Use the same "
                             "parameter in both places, or give one of them a copy: clone()")
    moved = {name: place for name in trained
             if (place := _place(trained[name])) and (name in parts.sparse or place[0] % ALIGNMENT)}
    for owner in module.modules():
        for attribute, value in vars(owner).items():
            if attribute not in ("_parameters", "_buffers", "_modules"):
                _refuse_views(f"{attribute} of {type(owner).__name__}", value, trained, moved, parts)


def _refuse_views(where, value, trained, moved, parts):
    for tensor in _tensors(value, set()):
        place = _place(tensor)
        for name, (begin, end) in moved.items() if place else ():
            if tensor is not trained[name] and place[0] < end and begin < place[1]:
                told = f"{where} is in the memory of {name}, and would keep old values, because "
                if name in parts.sparse:
                    raise ValueError(f"{told}a rank has only the rows that it looks up: make the table a dense "
                                     f"variable, TorchModel(..., dense=[{name!r}])")
                raise ValueError(f"{told}the parameter begins at no multiple of {ALIGNMENT} bytes and is copied to "
                                 "one: say nn.Parameter(values.clone()) before you make the view")


def _tensors(value, seen):
    """Yield the tensors in nested lists, tuples and dicts."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (list, tuple, dict)) and id(value) not in seen:
        seen.add(id(value))
        for part in value.values() if isinstance(value, dict) else value:
            yield from _tensors(part, seen)


def _place(tensor) -> tuple[int, int]:
    """Return the first and last address of a tensor; () if it has no memory."""
    if tensor.is_meta or not tensor.numel() or tensor.layout is not torch.strided:
        return ()
    begin, last = tensor.data_ptr(), sum((size - 1) * step for size, step in zip(tensor.shape, tensor.stride()))
    return begin, begin + (last + 1) * tensor.element_size()
