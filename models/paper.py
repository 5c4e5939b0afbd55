"""A model as the paper measured it: its size, its computation, and how much faster the hybrid was."""

from dataclasses import dataclass, field
from typing import Any, Callable


@dataclass(frozen=True)
class Paper:
    """A model at the paper's size (docs/paper.md, Models).

    dense, sparse: elements.  alpha: part of all elements that a worker touches.  examples: of a GPU in a step.
    flop: of an example, forward and backward.  efficiency: part of a GPU's peak that its computation reaches, assumed.
    at_size(ranks, seed): returns (model, data) of that size; no parameter is made.  data may be None where nothing is
    sparse.
    goals: architecture -> speed of the hybrid over it, by the abstract.  assumed: sentences for a report.
    """

    dense: int
    sparse: int
    alpha: float
    examples: int
    flop: float
    efficiency: float
    at_size: Callable[[int, int], tuple[Any, Any]]
    goals: dict[str, float] = field(default_factory=dict)
    assumed: tuple[str, ...] = ()

    @property
    def row_elements(self) -> float:
        """Elements of the rows that a worker touches: alpha (dense + sparse) - dense, as dense ones have alpha 1."""
        return self.alpha * (self.dense + self.sparse) - self.dense
