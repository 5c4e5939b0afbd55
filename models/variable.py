"""A variable: a named trainable array. Its initial values depend on its name and the seed, not on the rank."""

import math
import operator
from dataclasses import dataclass, field

import numpy as np

from kernels.random import key_of, uniform

STATISTIC_RATE = 0.1
"""How far a buffer moves towards each step's estimate: value += STATISTIC_RATE * (estimate - value)."""


@dataclass(frozen=True)
class Constant:
    """Every element starts at ``value``."""

    value: float = 0.0

    def elements(self, key, start, count):
        """Return elements ``start`` to ``start + count - 1``: (count,) float64. Local."""
        return np.full(count, self.value)


@dataclass(frozen=True)
class Uniform:
    """Element i starts at limit * (2u_i - 1), u uniform in [0, 1)."""

    limit: float

    def elements(self, key, start, count):
        """Return elements ``start`` to ``start + count - 1`` of random sequence ``key``: (count,) float64. Local."""
        return self.limit * (2.0 * uniform(key, count, start) - 1.0)


@dataclass(frozen=True)
class Variable:
    """A named trainable array.

    shape:     integers, in a tuple, a list or a NumPy array.  dtype: its name, or a type such as np.float32.
    sparse:    its gradient touches only some rows and is a RowGradient; its shape is (rows, columns).
    statistic: it is a buffer, not trained. Its "gradient" is this step's estimate: the sum of the microbatches' shares.
               The step does value += rate * (estimate - value); rate: ``learning_rate``, None: STATISTIC_RATE.
    decays:    whether weight decay applies to it.
    learning_rate, weight_decay: used instead of the training's options, with the same schedule; None: the options.
    clipped:   its gradient counts in the global norm, and is clipped by it.
    blocks:    S, a power of two: the model computes with S equal parts of its rows, one by one, so that each of K ranks
               may keep S/K neighbouring parts (see ``models.fully_connected``). 1: it is not cut.
    Raises ValueError for an invalid field, with the remedy.
    """

    name: str
    shape: tuple[int, ...]
    sparse: bool = False
    initial: Constant | Uniform = field(default_factory=Constant)
    dtype: str = "float32"
    decays: bool = True
    clipped: bool = True
    statistic: bool = False
    blocks: int = 1
    learning_rate: float | None = None
    weight_decay: float | None = None

    def __post_init__(self):
        if not isinstance(self.name, str) or not self.name or "\0" in self.name:
            raise ValueError(f"a variable is called {self.name!r}: its name must be a string of at least one "
                             "character, without NUL")
        object.__setattr__(self, "shape", _shape(self.name, self.shape))
        object.__setattr__(self, "dtype", _dtype(self.name, self.dtype))
        for flag in ("sparse", "decays", "clipped", "statistic"):
            if not isinstance(value := getattr(self, flag), (bool, np.bool_)):
                raise ValueError(f"variable {self.name!r} has {flag}={value!r}: write True or False")
            object.__setattr__(self, flag, bool(value))
        for number in ("learning_rate", "weight_decay"):
            if (value := getattr(self, number)) is not None and not (
                    isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < math.inf):
                raise ValueError(f"variable {self.name!r} has {number}={value!r}: write a number of at least 0, or "
                                 "None")
        if isinstance(self.initial, type) or not callable(getattr(self.initial, "elements", None)):
            raise ValueError(f"variable {self.name!r} has initial={self.initial!r}: write Constant(value), "
                             "Uniform(limit), or what has elements(key, start, count) as they have")
        check_blocks(f"rows of variable {self.name!r}", self.shape[0] if self.shape else 1, self.blocks)
        if self.sparse and len(self.shape) != 2:
            raise ValueError(f"sparse variable {self.name!r} has shape {self.shape}: give it two axes (rows, columns)")

    @property
    def size(self) -> int:
        """The number of elements."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """The bytes of one copy."""
        return self.size * np.dtype(self.dtype).itemsize

    def rate_in(self, options) -> float:
        """Return the learning rate in a training with these options, before its schedule; of a buffer, its rate."""
        given = STATISTIC_RATE if self.statistic else options.learning_rate
        return given if self.learning_rate is None else self.learning_rate

    def decay_in(self, options) -> float:
        """Return the weight decay in a training with these options."""
        return 0.0 if not self.decays else options.weight_decay if self.weight_decay is None else self.weight_decay

    def initial_elements(self, seed: int, start: int, count: int):
        """Return elements ``start`` to ``start + count - 1`` of the initial value: (count,) in its own dtype."""
        return np.asarray(self.initial.elements(key_of(seed, "initial", self.name), start, count)).reshape(count)

    def initial_rows(self, seed: int, start: int = 0, stop: int | None = None, stride: int = 1):
        """Return rows start, start + stride, ... below stop (axis 0) of the initial value. Local."""
        count = self.shape[0] if self.shape else 1
        ids = range(count)[start:stop:stride]
        width = self.size // count if count else 0
        values = np.empty((len(ids), width), self.dtype)
        block = max(1, 2**20 // max(1, width * stride))  # rows at a time; skipped rows are computed too, then dropped
        for lo in range(0, len(ids), block):
            some = ids[lo:lo + block]
            rows = some[-1] + 1 - some[0]
            elements = self.initial_elements(seed, some[0] * width, rows * width)
            values[lo:lo + block] = elements.reshape(rows, width)[::stride]
        return values.reshape(len(ids), *self.shape[1:]) if self.shape else values.reshape(())

    def initial_value(self, seed: int):
        """Return the whole initial value: shape ``shape``, dtype ``dtype``. Local."""
        return self.initial_rows(seed)


def check_blocks(what: str, count: int, blocks):
    """Raise ValueError unless ``blocks`` is a power of two that divides ``count``. what: for the message. Local."""
    if type(blocks) is not int or blocks < 1 or blocks & (blocks - 1) or count % blocks:
        raise ValueError(f"{count} {what} in {blocks!r} blocks: give a power of two that divides {count}: "
                         f"{', '.join(map(str, blocks_of(count)))}")


def blocks_of(count: int) -> list[int]:
    """Return the possible numbers of blocks for ``count`` rows, up to 64. Local."""
    return [1 << i for i in range(7) if count % (1 << i) == 0]


def _shape(name, shape) -> tuple[int, ...]:
    """Return a shape as a tuple of ints. Raises ValueError unless it is a sequence of non-negative integers."""
    try:
        sizes = tuple(operator.index(size) for size in shape if not isinstance(size, (bool, np.bool_)))
        if not isinstance(shape, (str, bytes)) and len(sizes) == len(shape) and all(size >= 0 for size in sizes):
            return sizes
    except TypeError:
        pass
    raise ValueError(f"variable {name!r} has shape {shape!r}: write a tuple of integers, none below 0, such as (3, 4), "
                     "(3,) or ()")


def _dtype(name, dtype) -> str:
    """Return a dtype's name. Raises ValueError if it is not a dtype."""
    try:
        if dtype is not None:  # NumPy reads None as float64
            return np.dtype(dtype).name
    except TypeError:
        pass
    raise ValueError(f"variable {name!r} has dtype {dtype!r}: write 'float32' or 'float64'")
