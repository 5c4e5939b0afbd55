"""A tree of arrays as variables: their names, types and initial values."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import jax
import numpy as np

from models import Variable
from models.frameworks.initial import GivenValues, digest_of
from refimpl.jax.arrays import WIDE, to_jax


@dataclass(frozen=True)
class Parts:
    """The arrays of a tree by their names, the paths: "layers.0.w". What is in none of the three is dense. Local.

    tables: sparse variables.  moving: arrays that the loss changes, as running statistics; integers, too.
    constants: arrays that are not trained.
    """

    leaves: dict[str, Any]
    structure: Any
    tables: tuple = ()
    moving: tuple = ()
    constants: tuple = ()

    def tree(self, values: dict):
        """Return the tree with other values: name -> anything."""
        return jax.tree.unflatten(self.structure, [values[name] for name in self.leaves])

    @cached_property
    def fixed(self) -> dict:
        """The constants as JAX's arrays: name -> array."""
        return {name: to_jax(self.leaves[name]) for name in self.constants}

    @cached_property
    def digest(self) -> str:
        """See ``digest_of``."""
        arrays = {name: np.asarray(self.leaves[name]) for name in self.constants}
        return digest_of((f"{name} {array.dtype} {array.shape}", array.tobytes()) for name, array in arrays.items())


def named(parameters) -> tuple[dict, Any]:
    """Return (name -> array, the tree's structure); a name is the path: "layers.0.w". Local."""
    found, structure = jax.tree_util.tree_flatten_with_path(parameters)
    names = [jax.tree_util.keystr(path, simple=True, separator=".") or "parameters" for path, _ in found]
    if twice := {name for name in names if names.count(name) > 1}:
        raise ValueError(f"two parameters are called {', '.join(sorted(twice))}: leave dots out of the tree's keys")
    if not names:
        raise ValueError("there are no parameters: give JaxModel a tree of arrays, such as {\"w\": array}")
    return dict(zip(names, (leaf for _, leaf in found))), structure


def tables_of(found, rows, dense) -> tuple:
    """Return the names of tables: those that ``rows`` declares, and the found ones that are not in ``dense``. Local."""
    return tuple(dict.fromkeys([*(rows or ()), *(name for name in found if name not in dense)]))


def variables_of(parts: Parts, **given) -> list[Variable]:
    """Return the variables of a tree: parameters in its order, then statistics. Local.

    given: ``rows``, ``initial`` and ``dense`` of a model, by names.  Raises ValueError if one cannot be a variable.
    """
    trained = {name: leaf for name, leaf in parts.leaves.items() if name not in (*parts.moving, *parts.constants)}
    for what, names in given.items():
        if unknown := sorted(set(names) - set(trained)):
            raise ValueError(f"{what} names {', '.join(unknown)}, which is no parameter; there are "
                             f"{', '.join(trained)}")
    made = [_variable(name, leaf, name in parts.tables, given["initial"].get(name), parts.digest)
            for name, leaf in trained.items()]
    return made + [_statistic(name, parts.leaves[name], made[0].dtype, parts.digest) for name in parts.moving]


def _statistic(name, leaf, dtype, constants) -> Variable:
    """Return the variable of an array that the loss changes: after a step it is the mean of the microbatches' values.

    It has the parameters' dtype, integers and truth values, too.
    """
    if not jax.dtypes.issubdtype(leaf.dtype, np.number) and leaf.dtype != bool:
        raise ValueError(f"{name} is {leaf.dtype}, and the loss changes it: statistics are numbers")
    return Variable(name, leaf.shape, initial=GivenValues(constants, np.asarray(leaf).astype(dtype)), statistic=True,
                    dtype=dtype, decays=False, clipped=False, learning_rate=1.0)


LARGEST = 1 << 20
"""The largest integer that a loss may change. The mean in float32 of equal numbers up to it can be rounded to them."""


def as_changed(name, value, dtype):
    """Return a statistic's value as the loss has it, rounded if it is an integer or a truth value. Local.

    Raises ValueError unless this integer was the same in all microbatches.
    """
    if np.dtype(dtype).kind not in "iub":
        return value.astype(dtype)
    found, size = np.rint(value), np.abs(value)
    if (np.abs(value - found) > 1e-3 + 1e-6 * size).any() or (size > LARGEST).any():
        raise ValueError(f"{name} is {dtype}, and the loss gave it different values in different microbatches, or one "
                         f"above {LARGEST}: only floats can be the mean of the microbatches' values")
    return found.astype(dtype)


def _variable(name, leaf, sparse, start, constants) -> Variable:
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
    return Variable(name, leaf.shape, sparse=sparse, initial=start or GivenValues(constants, np.asarray(leaf)),
                    dtype=str(leaf.dtype))
