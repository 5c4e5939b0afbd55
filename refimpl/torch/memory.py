"""Tensors of a module that share a parameter's memory, and would be wrong while the parameter is trained."""

import torch

from refimpl.torch.parts import Parts
from refimpl.torch.tensors import ALIGNMENT


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
