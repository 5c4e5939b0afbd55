"""Find the rows that a batch needs: record its look-ups while the module runs without its tables."""

import timeit

import numpy as np
import torch
from torch import nn

from kernels import unique_ids
from models.frameworks.trees import mapped
from refimpl.torch.bound import Bound
from refimpl.torch.repeatable import repeatable
from refimpl.torch.tables import Noted
from refimpl.torch.tensors import Microbatch, on_device

CPU, META = torch.device("cpu"), torch.device("meta")


class Recorder:
    """Records look-ups. Local.

    The module runs with real integers, and with floats that have only a shape (PyTorch's meta device), so little is
    computed. The first batch shows whether look-ups depend on more than this, for example on values. If they do, or if
    it is faster, the module runs with its initial values. The first batch also gives the number of look-ups. Each run
    ends with the last of them.
    """

    def __init__(self, bound: Bound):
        self.bound, self.device, self.count, self.standing = bound, None, None, {}
        self.with_gradients = False  # whether the module computes gradients (torch.autograd.grad) meanwhile
        self.shapes = {layer: SHAPES[type(layer).forward] for layer in bound.module.modules()
                       if type(layer).forward in SHAPES and "forward" not in vars(layer)}

    def rows_needed(self, batch) -> dict:
        """Return table -> (k,) int64 sorted unique row numbers. Raises ValueError for an id outside its table."""
        if self.device is None:
            self._choose(batch)
        try:
            found = self._run(batch, self.device)
        except Exception:
            if self.device == CPU:
                raise
            found = self._run(batch, CPU)  # a batch with fewer look-ups runs on, into code that needs values
        return _unique_each(found)

    def _choose(self, batch):
        """Find with the first batch how many look-ups there are, and whether shapes suffice to find them."""
        quick = self._run(batch, META, Exception)  # some code needs values
        try:
            found = self._run(batch, CPU)
        except RuntimeError:
            self.with_gradients = True
            found = self._run(batch, CPU)
        same = all(len(quick[name]) == len(ids) and all(map(np.array_equal, quick[name], ids))
                   for name, ids in found.items())
        self.count = sum(map(len, found.values()))
        self.device = min((META, CPU), key=lambda device: self._seconds(batch, device)) if same else CPU

    def _seconds(self, batch, device) -> float:
        return min(timeit.repeat(lambda: self._run(batch, device), number=1, repeat=3))

    def _run(self, batch, device, *endings) -> dict:
        """Return table -> list of the looked-up ids, up to the last look-up or an exception of these types."""
        left = [self.count]

        def seen():
            if left[0] is not None:
                left[0] -= 1
                if left[0] <= 0:
                    raise _LastLookUp

        bound, parts = self.bound, self.bound.parts
        notes = {name: Noted(name, seen, device) for name in parts.sparse}
        given = Microbatch(*mapped(tuple(on_device(batch, CPU)), lambda leaf: _there(leaf, device)))
        with repeatable(batch.key, CPU), torch.set_grad_enabled(self.with_gradients):
            try:
                bound.call(given, CPU, self._values(device), notes, answers=self.shapes if device == META else {})
            except (_LastLookUp, *endings):
                pass
        return {name: note.ids for name, note in notes.items()}

    def _values(self, device) -> dict:
        """Return name -> tensor of all parameters and buffers; buffers are copies, because the module may write."""
        parts = self.bound.parts
        dense = {name: self._standing(name, device) for name in parts.dense if self.bound.own[name].device != device}
        constants = {name: _there(parts.constant(name).detach(), device) for name in parts.constants}
        buffers = {name: tensor.clone() for name, tensor in constants.items() if name not in parts.holders}
        return {**dense, **constants, **buffers, **self.bound.statistics(device)}

    def _standing(self, name, device):
        """Return the substitute of a parameter on another device, which is made once, with the values at that time."""
        if (name, device) not in self.standing:
            self.standing[name, device] = _there(self.bound.own[name].detach(), device)
        return self.standing[name, device]


def shapes_of_recurrent(layer, input, hx=None):
    """Return tensors with the shapes of the results of ``nn.LSTM``, ``nn.GRU`` or ``nn.RNN``. Local."""
    ways, width = 1 + layer.bidirectional, layer.proj_size or layer.hidden_size
    batch = () if input.ndim == 2 else (input.shape[0 if layer.batch_first else 1],)
    hidden, cell = (input.new_empty(ways * layer.num_layers, *batch, size) for size in (width, layer.hidden_size))
    return input.new_empty(*input.shape[:-1], ways * width), (hidden, cell) if layer.mode == "LSTM" else hidden


SHAPES = {forward: shapes_of_recurrent for forward in (nn.LSTM.forward, nn.GRU.forward, nn.RNN.forward)} | {
    nn.Dropout.forward: lambda layer, input: input}
"""Layers that take PyTorch longer than a millisecond on the meta device, and what answers in their place."""


class _LastLookUp(BaseException):
    """Ends a run after the last look-up. An ``except Exception`` in the module does not catch it."""


def _there(leaf, device):
    """Return a tensor of floats on the device; integers and other objects unchanged."""
    floats = isinstance(leaf, torch.Tensor) and (leaf.is_floating_point() or leaf.is_complex())
    if floats and leaf.is_meta and device != META:  # its values do not exist
        return torch.zeros_like(leaf, device=device)
    return leaf.to(device) if floats else leaf


def _unique_each(found) -> dict:
    """Return table -> sorted unique ids. found: table -> list of arrays of ids.

    Tables with the same look-ups, as a recommender's factors and weights, share the array, and what is made of it.
    """
    known, result = [], {}
    for name, ids in found.items():
        ids = np.concatenate(ids) if ids else np.empty(0, np.int64)
        same = [unique for other, unique in known if np.array_equal(other, ids)]
        result[name] = same[0] if same else unique_ids(ids)
        known.append((ids, result[name]))
    return result
