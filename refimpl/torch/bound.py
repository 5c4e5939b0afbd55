"""A module during training: its parameters have the values of the step, its tables only some rows."""

from contextlib import contextmanager
from operator import is_

import torch

from refimpl.torch.parts import STATISTICS, Parts
from refimpl.torch.tables import answering, away
from refimpl.torch.tensors import ALIGNMENT, tensors_in, to_aligned, to_tensor


class Bound:
    """A module and its loss, which are called with the values of a step. Local.

    Dense parameters are written in place, so that all references to them see the values: a list of parameters in the
    module, a hook, a view, a recomputation in the backward pass. Buffers and copies of constants replace the module's
    own during a call.
    loss: loss(module, batch) -> 0-d tensor.  parts: the module's.
    own: name of a trained parameter -> the module's parameter.
    places: name of a parameter or buffer -> [(dict, key)], all its places in the module.
    """

    def __init__(self, module, loss, parts: Parts):
        self.module, self.loss, self.parts = module, loss, parts
        self.own = {name: parts.parameter(name) for name in (*parts.dense, *parts.sparse)}
        self.homes = {name: torch.device("cpu") if parameter.is_meta else parameter.device
                      for name, parameter in self.own.items()}
        self.places = {name: [(owner._parameters, key) for owner, key in held] for name, held in parts.holders.items()}
        for name, owner in module.named_modules():
            self.places |= {f"{name}.{key}".lstrip("."): [(owner._buffers, key)] for key in owner._buffers}
        self.moving: dict = {}  # of the buffers that a forward pass changes, their values in the step
        self.copies: dict = {}  # device -> copies of the constants on it
        self.seen: list = []  # what _check_parameters has seen last: (dict, its values), parameters' requires_grad

    def write(self, values, device) -> dict:
        """Write values into the module's dense parameters, on a device; return name -> parameter.

        values: name -> array.
        Raises ValueError if the module's parameters, or the trained ones among them, have changed since the model was
        made.
        """
        self._check_parameters()
        found = {name: self._own(name, device) for name in self.parts.dense}
        for parameter in self.own.values():
            parameter.grad = None
        with torch.no_grad():
            for name, parameter in found.items():
                parameter.copy_(to_tensor(values[name]))
        return found

    def keep(self, name, value):
        """Store the value of a parameter or buffer in the module, on its original device. Local."""
        if name in self.own:
            kept = self._own(name, self.homes[name])
        else:
            slots, key = self.places[name][0]
            if slots[key].is_meta:
                slots[key] = torch.empty_like(slots[key], device="cpu")
            kept = slots[key]
        with torch.no_grad():
            kept.copy_(to_tensor(value))

    def tensors(self, names) -> dict:
        """Return the module's parameters and buffers of these names: name -> tensor. Local."""
        return {name: self.own[name] if name in self.own else self.places[name][0][0][self.places[name][0][1]]
                for name in names}

    def values(self, names) -> dict:
        """Return the module's values: name -> NumPy array, without a copy if they are on the host. Local."""
        return {name: tensor.detach().cpu().contiguous().numpy() for name, tensor in self.tensors(names).items()}

    def _check_parameters(self):
        if self.seen and all(len(slots) == len(values) and all(map(is_, slots.values(), values))
                             for slots, values in self.seen[0]) and self.seen[1] == self._flags():
            return  # a walk through the module takes ten times as long
        now = dict(self.module.named_parameters())
        for name in now.keys() | self.parts.holders.keys():
            trained = name in self.own
            if name not in now or name not in self.parts.holders or trained and now[name] is not self.own[name]:
                raise ValueError(f"{name} is another parameter than when TorchModel was made (a layer was replaced, or "
                                 "load_state_dict(assign=True) called): make the TorchModel after it")
            if now[name].requires_grad != trained:
                raise ValueError(f"{name} has requires_grad={not trained}, and had {trained} when TorchModel was made: "
                                 "which parameters are trained cannot change in a training; make another TorchModel, "
                                 "and train again")
        places = [slots for part in self.module.modules() for slots in (part._modules, part._parameters)]
        self.seen = [[(slots, list(slots.values())) for slots in places], self._flags()]

    def _flags(self):
        return [held[0][0]._parameters[held[0][1]].requires_grad for held in self.parts.holders.values()]

    def _own(self, name, device):
        """Return the module's parameter, moved to a device as by ``module.to(device)``, and to an aligned address."""
        parameter = self.own[name]
        if parameter.is_meta:
            self.own[name] = parameter = self.parts.made(name, device)
        elif parameter.device != device or parameter.data_ptr() % ALIGNMENT:
            parameter.data = torch.empty_like(parameter, device=device)
        return parameter

    def call(self, batch, device, values, sources, function=None, answers=()):
        """Return loss(module, batch), or function(module, batch). Other arguments: see ``holding``."""
        with self.holding(device, values, sources, answers):
            return (function or self.loss)(self.module, batch)

    @contextmanager
    def holding(self, device, values, sources, answers=()):
        """Let the module use these values instead of its own, and its tables the sources, within a context.

        values: name -> tensor, of buffers, constants and, during a call, parameters.
        sources: table -> ``PulledRows`` or ``Noted``, in which its layers look up.
        answers: replacements for further layers, see ``answering``.
        """
        layers = {layer: source.bag if isinstance(layer, torch.nn.EmbeddingBag) else source.embedding
                  for name, source in sources.items() for layer in self.parts.sparse[name]}
        own = [(slots, key, slots[key]) for name in values for slots, key in self.places[name]]
        with away({name: self.own[name] for name in sources}, device), answering(layers | dict(answers)):
            try:
                for name, value in values.items():
                    for slots, key in self.places[name]:
                        slots[key] = value
                yield
            finally:
                for slots, key, value in own:
                    slots[key] = value

    @contextmanager
    def whole(self, tables):
        """Let tables (name -> array) be whole within a context; yield name -> tensor of those on the meta device."""
        values = {name: to_aligned(tables[name]) for name in self.parts.sparse}
        there = {name: self.own[name] for name in values if not self.own[name].is_meta}
        before = {name: parameter.data for name, parameter in there.items()}
        try:
            for name, parameter in there.items():
                parameter.data = values[name]
            yield {name: value for name, value in values.items() if name not in there}
        finally:
            for name, parameter in there.items():
                parameter.data = before[name]

    def check_tables(self):
        """Raise ValueError, with its name, if a table's own parameter has a gradient. Pulled rows never give it one."""
        for name in self.parts.sparse:
            with torch._C.DisableTorchFunctionSubclass():
                reached = self.own[name].grad is not None
            if reached:
                raise ValueError(f"{name} is used through a view that was made before the forward pass and has "
                                 "old values: look rows up only by the table's layer, or make it a dense "
                                 f"variable, TorchModel(..., dense=[{name!r}])")

    def constants(self, device) -> dict:
        """Return the constants on a device: the module's own if they are on it, else copies, made once."""
        if device not in self.copies:
            self.copies[device] = {name: self.parts.constant(name).to(device) for name in self.parts.constants}
        return self.copies[device]

    def statistics(self, device) -> dict:
        """Return buffer -> tensor, to which a forward pass writes the batch's statistics; counts are on the host.

        Also copies of the buffers that a forward pass changes, with the values of the step.
        """
        moving = {name: self.moving.get(name, getattr(*place)).detach().to(device, copy=True)
                  for name, place in self.parts.moving.items()}
        return moving | {f"{name}.{key}".lstrip("."): torch.zeros_like(
                    buffer, device=device if buffer.is_floating_point() else "cpu")
                for name, layer in self.parts.norms.items() for key, buffer in layer._buffers.items()}


@contextmanager
def changed(layers, attribute: str, value):
    """Let an attribute of layers have another value within a context. Local."""
    before = {layer: getattr(layer, attribute) for layer in layers}
    try:
        for layer in before:
            setattr(layer, attribute, value)
        yield
    finally:
        for layer, was in before.items():
            setattr(layer, attribute, was)


def own_statistics(norms):
    """A context in which batch norm layers write only the batch's mean and variance to their buffers. Local."""
    return changed(norms.values(), "momentum", 1.0)


@contextmanager
def evaluating(module):
    """Set the module to evaluation mode within a context; then restore the mode of each part. Local."""
    modes = [(part, part.training) for part in module.modules()]
    try:
        module.eval()
        yield
    finally:
        for part, training in modes:
            part.training = training


class Unchanged:
    """Tensors that a forward pass may only read. Local."""

    def __init__(self, parts: Parts, values, constants, batch):
        self.parts, self.constants = parts, constants
        self.versions = [(name, tensor, tensor._version) for name, tensor in (*values.items(), *constants.items())]
        self.batch = [(tensor, tensor._version) for tensor in tensors_in(tuple(batch[:3]))]

    def check(self):
        """Raise ValueError, which names the tensor, if one was written to: PyTorch counts writes."""
        for name, tensor, version in self.versions:
            if tensor._version != version:
                raise ValueError(self._told(name))
        if any(tensor._version != version for tensor, version in self.batch):
            raise ValueError("the forward pass writes to the tensors of its batch, which belong to the training: "
                             "change a copy, tensor.clone()")

    def check_copies(self, originals):
        """Raise ValueError, which names it, if a tensor differs from its original: PyTorch misses writes to .data.

        originals: name -> tensor, of all tensors.
        """
        for name, tensor, _ in self.versions:
            if not torch.equal(tensor, originals[name]):
                raise ValueError(self._told(name))

    def check_kept(self):
        """Raise ValueError, which names it, if a constant was replaced. Call it within ``holding``."""
        for name, tensor in self.constants.items():
            if self.parts.constant(name) is not tensor:
                raise ValueError(self._told(name))

    def _told(self, name):
        if name in self.parts.holders:
            return (f"parameter {name} is changed in place in the forward pass: only the optimizer may change "
                    "values; compute with a changed copy")
        return (f"buffer {name} is changed in the forward pass: it would differ between ranks. Only batch norm's "
                "running statistics may change. Say TorchModel(..., "
                f"buffers=[{name!r}]) for the mean over the microbatches, or carry it in batch.state")


def statistics_of(parts: Parts, statistics) -> dict:
    """Return the batch's mean and variance of each batch norm layer: variable -> tensor. Local.

    And the buffers that the forward pass has changed. Call it within ``holding``.
    statistics: the buffers bound in the forward pass.  Raises ValueError for a layer that was called more than once.
    """
    found = {name: getattr(*place).detach() for name, place in parts.moving.items()}
    for layer in parts.norms:
        prefix = f"{layer}." if layer else ""
        calls = int(statistics[f"{prefix}num_batches_tracked"])
        if calls > 1:
            raise ValueError(f"batch norm {layer} is called {calls} times in a forward pass: which statistics it "
                             "should keep is not defined here; give each place a layer of its own")
        if calls:
            found |= {f"{prefix}{key}": statistics[f"{prefix}{key}"] for key in STATISTICS}
    return found
