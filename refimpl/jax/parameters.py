"""A tree of parameters as variables: their names, types and initial values."""

from dataclasses import dataclass, field
from typing import Any

import jax
import numpy as np

from models import Variable
from refimpl.jax.arrays import WIDE


@dataclass(frozen=True)
class GivenValues:
    """The values of an array in the model's tree."""

    array: Any = field(repr=False, compare=False)

    def elements(self, key, start, count):
        """Return elements ``start`` to ``start + count - 1``: (count,). Local."""
        return self.array.reshape(-1)[start:start + count]


def named(parameters) -> tuple[dict, Any]:
    """Return (name -> array, the tree's structure); a name is the path: "layers.0.w". Local."""
    found, structure = jax.tree_util.tree_flatten_with_path(parameters)
    names = [jax.tree_util.keystr(path, simple=True, separator=".") or "parameters" for path, _ in found]
    if twice := {name for name in names if names.count(name) > 1}:
        raise ValueError(f"two parameters are called {', '.join(sorted(twice))}: leave dots out of the tree's keys")
    if not names:
        raise ValueError("there are no parameters: give JaxModel a tree of arrays, such as {\"w\": array}")
    return dict(zip(names, (leaf for _, leaf in found))), structure


def variables_of(leaves: dict, tables, initial: dict) -> list[Variable]:
    """Return the variables of named arrays, in their order. Local.

    tables: names of sparse ones.  initial: see ``JaxModel``.  Raises ValueError if one cannot be a variable.
    """
    for what, names in (("rows", tables), ("initial", initial)):
        if unknown := sorted(set(names) - set(leaves)):
            raise ValueError(f"{what} names {', '.join(unknown)}, which is no parameter; there are {', '.join(leaves)}")
    return [_variable(name, leaf, name in tables, initial.get(name)) for name, leaf in leaves.items()]


def _variable(name, leaf, sparse, start) -> Variable:
    if not isinstance(leaf, (np.ndarray, np.generic, jax.Array, jax.ShapeDtypeStruct)):
        raise ValueError(f"{name} is {leaf!r:.60}, no array: give np.float32(x), or leave out of the parameters what "
                         "is not trained")
    if str(leaf.dtype) not in ("float32", "float64"):
        raise ValueError(f"{name} is {leaf.dtype}: trainings are of float32 or float64; say .astype(\"float32\"), or "
                         "leave out of the parameters what is not trained")
    if not jax.config.jax_enable_x64:
        if str(leaf.dtype) == "float64":
            raise ValueError(f"{name} is float64, which JAX would cut to 32 bits: {WIDE}, or give it as float32")
        if sparse and leaf.shape[:1] > (2**31 - 1,):
            raise ValueError(f"{name} has {leaf.shape[0]} rows, whose numbers JAX would cut to 32 bits: {WIDE}")
    if start is None and isinstance(leaf, jax.ShapeDtypeStruct):
        raise ValueError(f"{name} has a shape and no values: give it some, JaxModel(..., initial={{{name!r}: "
                         "Uniform(limit)})")
    return Variable(name, leaf.shape, sparse=sparse, initial=start or GivenValues(np.asarray(leaf)),
                    dtype=str(leaf.dtype))
