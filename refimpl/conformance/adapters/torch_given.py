"""What both PyTorch adapters share: a module whose backward pass gives the gradients that it is told to.

Dense ones by p * g, whose derivative is g; rows by an ``Embedding(sparse=True)``, as a model makes them: ids as they
come, repeats and all.
"""

import numpy as np
import torch


class GivenParameters(torch.nn.Module):
    """Parameters without a model. values: name -> tensor.  sparse: names of those that are read by row.

    bags: options of ``EmbeddingBag``, where rows are read in bags.

    Rows need the layer: DistributedDataParallel asks it, not the gradient, whether gradients are sparse.
    """

    def __init__(self, values: dict[str, torch.Tensor], sparse=(), **bags):
        super().__init__()
        layer = torch.nn.EmbeddingBag if bags else torch.nn.Embedding
        self.tables, self.arrays = torch.nn.ModuleList(), torch.nn.ParameterList()
        self.use = {}
        for name in sorted(values):
            if name in sparse:
                self.tables.append(layer.from_pretrained(values[name], freeze=False, sparse=True, **bags))
                self.use[name] = self.tables[-1]
            else:
                self.arrays.append(torch.nn.Parameter(values[name]))
                self.use[name] = self.arrays[-1]

    def forward(self, gradients):
        """Return a loss. gradients: name -> tensor, (ids, rows) or (ids, offsets, those of bags); or a list of uses."""
        loss = torch.zeros(())
        for name, uses in gradients.items():
            for use in uses if isinstance(uses, list) else [uses]:
                read, g = (self.use[name](*use[:-1]), use[-1]) if isinstance(use, tuple) else (self.use[name], use)
                loss = loss + (read * g).sum()
        return loss

    @property
    def named(self) -> dict[str, torch.nn.Parameter]:
        """name -> parameter."""
        return {name: getattr(use, "weight", use) for name, use in self.use.items()}

    @property
    def sparse(self) -> set[str]:
        """Names of the parameters that are read by row."""
        return {name for name, use in self.use.items() if isinstance(use, torch.nn.Module)}

    def gradients(self) -> dict:
        """Return name -> array or (ids, rows): what is in ``grad``."""
        return {name: numbers(p.grad) for name, p in self.named.items()}

    def values(self) -> dict[str, np.ndarray]:
        """Return name -> a copy of the parameter."""
        return {name: p.detach().numpy().copy() for name, p in self.named.items()}


def tensors(part):
    """Return a tensor for an array, a tuple for a tuple, a list for a list. PyTorch has no negative strides."""
    if isinstance(part, (tuple, list)):
        return type(part)(tensors(p) for p in part)
    part = np.asarray(part)
    return torch.from_numpy(part.copy() if any(s < 0 for s in part.strides) else part)


def numbers(gradient: torch.Tensor):
    """Return a gradient as an array, or as (ids, rows): a sparse tensor's repeats count together."""
    if not gradient.is_sparse:
        return gradient.numpy()
    merged = gradient.coalesce()
    return merged.indices()[0].numpy(), merged.values().numpy()


def untouched(shape, dtype: torch.dtype) -> torch.Tensor:
    """Return a tensor of any shape that takes no memory: for parameters whose values do not matter."""
    return torch.zeros((), dtype=dtype).expand(shape)
