"""A rank's part of a variable and of its summed gradient. The optimizer works on these two."""

from dataclasses import dataclass, field
from typing import Any, NamedTuple

from models import Variable


@dataclass
class Shard:
    """A variable, or the rows of a variable that this rank keeps, with the optimizer's state.

    values: the whole value (dense, or replicated), or (rows owned, d).  state: slot -> array of values' shape.
    """

    variable: Variable
    values: Any
    state: dict[str, Any] = field(default_factory=dict)

    @property
    def arrays(self) -> dict[str | None, Any]:
        """slot -> array; slot None: the values."""
        return {None: self.values, **self.state}

    def array(self, slot: str | None):
        """Return the values (slot None) or an array of the optimizer's state. Local."""
        return self.values if slot is None else self.state[slot]


class Holding(NamedTuple):
    """The rows of a whole variable in a shard.

    rows: ranges of row numbers, in the order of the shard's rows; None: the whole variable.
    alone: whether only this rank keeps them.
    """

    shard: Shard
    rows: list[range] | None
    alone: bool


@dataclass
class ReducedGradient:
    """The gradient of a shard, summed over the global batch, for clipping and the optimizer.

    ids:    None for a whole gradient; else (k,) int64, the rows of ``shard.values`` for ``gradient`` (k, d).
    counts: whether this rank adds it to the norm: exactly one rank does for each element.
    """

    shard: Shard
    ids: Any
    gradient: Any
    counts: bool
