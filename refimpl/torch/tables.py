"""Tables of which a microbatch has only its own rows. PyTorch's two layers look up places among these rows.

Arguments have the names that they have in PyTorch's layers, because callers may use them as keywords.
"""

from contextlib import contextmanager
from functools import cache, partial

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from kernels import RowGradient


class PulledRows:
    """The rows of one table that a microbatch pulled, with a note of those that it touched. Local.

    ids: (k,) int64 NumPy array, sorted, unique.  rows: (k, d) tensor.
    lies_at: (rows of the table,) int64 tensor on the CPU, which receives the place of each id; None: ids are searched.
    """

    def __init__(self, name, ids, rows, lies_at=None):
        self.name, self.ids, self.rows, self.lies_at = name, ids, rows, lies_at
        self.known = torch.from_numpy(ids).to(rows.device)
        if lies_at is not None:
            lies_at[self.known] = torch.arange(len(ids))
        self.touched = torch.zeros(len(ids), dtype=torch.bool, device=rows.device)

    def embedding(self, layer, input):
        """Return rows of the ids as ``nn.Embedding`` does: (*input.shape, d)."""
        return functional.embedding(self._places(input, layer), self.rows, self._padding(layer))

    def bag(self, layer, input, offsets=None, per_sample_weights=None):
        """Return sums, means or maxima of rows as ``nn.EmbeddingBag`` does: (bags, d)."""
        return functional.embedding_bag(
            self._places(input, layer), self.rows, None if offsets is None else offsets.long(), mode=layer.mode,
            per_sample_weights=per_sample_weights, include_last_offset=layer.include_last_offset,
            padding_idx=self._padding(layer))

    def gradient(self, rows, to_array) -> RowGradient:
        """Return the row gradient: only touched rows, without rows that only padding read."""
        if bool(self.touched.all()):
            return RowGradient(self.ids, to_array(rows))
        return RowGradient(self.ids[self.touched.cpu().numpy()], to_array(rows[self.touched]))

    def _places(self, ids, layer):
        ids = ids.long().contiguous()
        if self.lies_at is None:
            places = torch.searchsorted(self.known, ids)
        else:  # what is not known lies somewhere, and is found out below
            places = self.lies_at[ids.clamp(0, len(self.lies_at) - 1)]
        if ids.numel():
            places.clamp_(max=max(len(self.ids) - 1, 0))
            unknown = self.known[places] != ids if len(self.ids) else torch.ones_like(ids, dtype=torch.bool)
            if bool(unknown.any()):
                raise ValueError(f"the module looks up row {int(ids[unknown][0])} of {self.name}, which was neither "
                                 "recorded nor declared: say which rows a batch needs, TorchModel(..., "
                                 "rows=function(batch) -> {name: ids}); if other rows' values decide which, make it a "
                                 f"dense variable, TorchModel(..., dense=[{self.name!r}])")
            counted = places if layer.padding_idx is None else places[ids != layer.padding_idx]
            self.touched.index_fill_(0, counted.reshape(-1), True)
        return places

    def _padding(self, layer) -> int | None:
        """Return the place of the layer's padding row, None if the row was not pulled."""
        if layer.padding_idx is None:
            return None
        place = int(np.searchsorted(self.ids, layer.padding_idx))
        return place if place < len(self.ids) and self.ids[place] == layer.padding_idx else None


class Noted:
    """A table without rows: it records the looked-up ids and returns zeros. Local.

    seen: called after each look-up.  device: of the zeros; "meta": they have only a shape.
    """

    def __init__(self, name, seen, device):
        self.name, self.seen, self.device, self.ids = name, seen, device, []

    def embedding(self, layer, input):
        """Record the ids; return zeros with the shape of ``nn.Embedding``'s result."""
        self._note(input, layer)
        return self._zeros(layer, *input.shape)

    def bag(self, layer, input, offsets=None, per_sample_weights=None):
        """Record the ids; return zeros with the shape of ``nn.EmbeddingBag``'s result."""
        self._note(input, layer)
        bags = len(input) if offsets is None else len(offsets) - layer.include_last_offset
        return self._zeros(layer, bags)

    def _note(self, ids, layer):
        ids = ids.cpu().numpy().reshape(-1).astype(np.int64, copy=False)
        if len(ids) and not 0 <= ids.min() <= ids.max() < layer.num_embeddings:
            wrong = ids[(ids < 0) | (ids >= layer.num_embeddings)][0]
            raise ValueError(f"the module looks up row {wrong} of {self.name}, which has rows 0 to "
                             f"{layer.num_embeddings - 1}: look at the data")
        self.ids.append(ids)
        self.seen()

    def _zeros(self, layer, *shape):
        zeros = torch.zeros(*shape, layer.embedding_dim, dtype=layer.weight.dtype, device=self.device)
        return zeros.requires_grad_().clone() if torch.is_grad_enabled() else zeros


IN_A_STEP = ("{0} is used outside of its layer ({1}; is it the weight of an output layer, or in a regularisation term, "
             "too?), where only the rows that were looked up are here: make it a dense variable, "
             "TorchModel(..., dense=[{0!r}])")
BETWEEN_STEPS = ("{0} is used between steps ({1}), when each rank keeps only some of its rows: take "
                 "trainer.step() in place of optimizer.step(), trainer.clip_grad_norm_ and trainer.evaluate(loader); "
                 "call trainer.gather() before everything else")


class Elsewhere(nn.Parameter):
    """A table's parameter while this rank has only some of its rows: it has a shape, and refuses every other use.

    It is the module's own parameter, whose class is changed for this time (``away``). So a list of parameters, a loss
    or a hook gets the same error as a layer.
    """

    @classmethod
    @cache
    def of(cls, name, device, told, *allowed):
        """Return the class of a table's parameter on a device. told: the message.  allowed: further functions. Local.
        """
        return type("Elsewhere", (cls,), {"table": name, "where": device, "told": told,
                                          "allowed": _WITHOUT_ROWS.union(allowed)})

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        """Allow functions that do not need rows; raise ValueError for all others."""
        if function in cls.allowed:
            if function is _DEVICE or function == _DEVICE:
                return args[0].where
            with torch._C.DisableTorchFunctionSubclass():
                return function(*args, **(kwargs or {}))
        use = getattr(function, "__name__", function)
        raise ValueError(cls.told.format(cls.table, function.__self__.__name__ if use == "__get__" else use))


_DEVICE = torch.Tensor.device.__get__
_WITHOUT_ROWS = {_DEVICE, torch.Tensor.shape.__get__, torch.Tensor.dtype.__get__, torch.Tensor.requires_grad.__get__,
                 torch.Tensor.ndim.__get__, torch.Tensor.is_sparse.__get__, torch.Tensor.layout.__get__,
                 torch.Tensor.size, torch.Tensor.dim, torch.Tensor.numel, torch.Tensor.is_floating_point}


@contextmanager
def away(parameters, device, told=IN_A_STEP, *allowed):
    """Let tables refuse all use except by their layers, within a context. Local.

    parameters: name -> parameter.  told, allowed: see ``Elsewhere.of``.
    Raises ValueError for a table with a hook, which would get the gradient of only some rows.
    """
    for name, parameter in parameters.items():
        if parameter._backward_hooks or parameter._post_accumulate_grad_hooks:
            raise ValueError(f"{name} has a hook (register_hook), and only the rows that are looked up have a gradient "
                             f"here: make it a dense variable, TorchModel(..., dense=[{name!r}]), or remove the hook")
    classes = {name: type(parameter) for name, parameter in parameters.items()}
    try:
        for name, parameter in parameters.items():
            parameter.__class__ = Elsewhere.of(name, device, told, *allowed)
        yield
    finally:
        for name, parameter in parameters.items():
            parameter.__class__ = classes[name]


@contextmanager
def answering(forwards):
    """Replace the forward functions of layers within a context: layer -> forward(layer, ...). Local."""
    for layer, forward in forwards.items():
        layer.forward = partial(forward, layer)
    try:
        yield
    finally:
        for layer in forwards:
            del layer.forward
