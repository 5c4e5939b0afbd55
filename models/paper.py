"""The paper's measurements of a model: its size, its computation, and the speed-up of the hybrid."""

from dataclasses import dataclass, field
from typing import Any, Callable


@dataclass(frozen=True)
class Paper:
    """A model at the paper's size (docs/paper.md, Models).

    dense, sparse: elements.  alpha: part of all elements that a worker touches.  examples: per GPU and step.
    flop: of an example, forward and backward.  efficiency: assumed part of a GPU's peak that the computation reaches.
    at_size(ranks, seed): returns (model, data) of that size and allocates no parameters. data may be None if no
    variable is sparse.
    goals: architecture -> the hybrid's speed-up over it, from the abstract.  assumed: sentences for a report.
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
        """Elements of the rows that a worker touches: alpha (dense + sparse) - dense, since dense ones have alpha 1."""
        return self.alpha * (self.dense + self.sparse) - self.dense
