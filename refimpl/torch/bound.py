"""A module at work with values that are not its own: it is never changed, whatever happens in it."""

from contextlib import contextmanager

import torch

from refimpl.torch.parts import STATISTICS, Parts
from refimpl.torch.tables import Elsewhere, answering, looking_up
from refimpl.torch.tensors import tensors_in


class Bound:
    """A module and its loss, to be called with values for its parameters and buffers. Local.

    loss: loss(module, batch) -> 0-d tensor.  parts: the module's.
    places: name of a parameter or buffer -> [(dict, key)], all places of the module in which it is.
    """

    def __init__(self, module, loss, parts: Parts):
        self.module, self.loss, self.parts = module, loss, parts
        self.places = {name: [(owner._parameters, key) for owner, key in held] for name, held in parts.holders.items()}
        for name, owner in module.named_modules():
            self.places |= {f"{name}.{key}".lstrip("."): [(owner._buffers, key)] for key in owner._buffers}
        self.elsewhere: dict = {}  # device -> what stands for the tables there
        self.copies: dict = {}  # device -> copies of the constants there

    def call(self, values, sources, batch, function=None, after=None, answers=()):
        """Return loss(module, batch), or function(module, batch); call ``after`` while the module has these values.

        values: name -> tensor.  sources: table -> what its layers look up in, ``Rows`` or ``Noted``; a table that is
        among the values is whole.  answers: what else answers for layers, see ``answering``.
        """
        layers = {layer: looking_up(layer, source) for name, source in sources.items()
                  for layer in self.parts.sparse[name]}
        with answering(layers | dict(answers)), self._holding(values):
            result = (function or self.loss)(self.module, batch)
            if after:
                after()
            return result

    @contextmanager
    def _holding(self, values):
        """Let the module have these values, wherever it has its own. (``torch.func.functional_call`` does so, too, but
        looks through the whole module each time.)"""
        own = [(slots, key, slots[key]) for name in values for slots, key in self.places[name]]
        try:
            for name, value in values.items():
                for slots, key in self.places[name]:
                    slots[key] = value
            yield
        finally:
            for slots, key, value in own:
                slots[key] = value

    def tables_elsewhere(self, device) -> dict:
        """Return what stands for each table where only some of its rows are here: name -> tensor."""
        if device not in self.elsewhere:
            self.elsewhere[device] = {name: Elsewhere.standing_for(name, self.parts.parameter(name), device)
                                      for name in self.parts.sparse}
        return self.elsewhere[device]

    def constants(self, device) -> dict:
        """Return the constants on a device: the module's own where they are there, else copies, made once."""
        if device not in self.copies:
            self.copies[device] = {name: self.parts.constant(name).to(device) for name in self.parts.constants}
        return self.copies[device]

    def statistics(self, device) -> dict:
        """Return fresh running statistics, in which the batch's own will be: buffer -> tensor; counts on the host."""
        return {f"{name}.{key}".lstrip("."): torch.zeros_like(
                    buffer, device=device if buffer.is_floating_point() else "cpu")
                for name, layer in self.parts.norms.items() for key, buffer in layer._buffers.items()}


class OwnStatistics:
    """Within it batch norm layers leave the batch's mean and variance, and nothing else, in their buffers. Local."""

    def __init__(self, norms):
        self.layers = list(norms.values())

    def __enter__(self):
        self.momenta = [layer.momentum for layer in self.layers]
        for layer in self.layers:
            layer.momentum = 1.0

    def __exit__(self, *problem):
        for layer, momentum in zip(self.layers, self.momenta):
            layer.momentum = momentum


class Evaluating:
    """Within it the module is in evaluation mode; then each part of it is in the mode it was in. Local."""

    def __init__(self, module):
        self.module = module

    def __enter__(self):
        self.modes = [(part, part.training) for part in self.module.modules()]
        self.module.eval()

    def __exit__(self, *problem):
        for part, training in self.modes:
            part.training = training


class Unchanged:
    """Tensors that a forward pass may only read. Local."""

    def __init__(self, parts: Parts, values, constants, batch):
        self.parts, self.constants = parts, constants
        self.versions = [(name, tensor, tensor._version) for name, tensor in (*values.items(), *constants.items())]
        self.batch = [(tensor, tensor._version) for tensor in tensors_in(tuple(batch[:3]))]

    def check(self):
        """Raise ValueError, naming it, if one was written to: PyTorch counts writes."""
        for name, tensor, version in self.versions:
            if tensor._version != version:
                raise ValueError(self._told(name))
        if any(tensor._version != version for tensor, version in self.batch):
            raise ValueError("the forward pass writes to the tensors of its batch: they are the training's; change a "
                             "copy, tensor.clone()")

    def check_copies(self, originals):
        """Raise ValueError, naming it, if a tensor is not its original any more: PyTorch does not count .data's writes.
        """
        for name, tensor, _ in self.versions:
            if name in originals and not torch.equal(tensor, originals[name]):
                raise ValueError(self._told(name))

    def check_kept(self):
        """Raise ValueError, naming it, if a constant was replaced; while the module has the values it was given."""
        for name, tensor in self.constants.items():
            if self.parts.constant(name) is not tensor:
                raise ValueError(self._told(name))

    def _told(self, name):
        if name in self.parts.holders:
            return (f"parameter {name} is changed in place in the forward pass: values are the training's, and the "
                    "optimizer alone changes them; compute with a changed copy")
        return (f"buffer {name} is changed in the forward pass: it would be another one on each rank; of buffers only "
                "batch norm's running statistics are known here. Carry it in batch.state, or make it a parameter")


def statistics_of(parts: Parts, statistics) -> dict:
    """Return the batch's mean and variance of each batch norm layer: variable -> tensor. Local.

    statistics: the buffers bound in the forward pass.  Raises ValueError for a layer that was called more than once.
    """
    found = {}
    for layer in parts.norms:
        prefix = f"{layer}." if layer else ""
        calls = int(statistics[f"{prefix}num_batches_tracked"])
        if calls > 1:
            raise ValueError(f"batch norm {layer} is called {calls} times in a forward pass: which statistics it "
                             "should keep is not defined here; give each place a layer of its own")
        if calls:
            found |= {f"{prefix}{key}": statistics[f"{prefix}{key}"] for key in STATISTICS}
    return found
