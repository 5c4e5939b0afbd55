"""Workloads of benchmarks and experiments: sizes of a model and its microbatches, and synthetic data of that shape."""

from dataclasses import asdict, dataclass, field
from typing import Any, Callable

from models.registry import ModelEntry, entry_of

STEPS = 16
"""The number of steps after which synthetic data repeat: enough for a measurement, or at least several batches."""


@dataclass(frozen=True)
class Workload:
    """A model and its microbatches, as plain data.

    model: its name in the registry.  sizes: of the model.  shape: of a microbatch; see ``synthetic`` in its entry.
    """

    name: str
    model: str
    sizes: dict = field(default_factory=dict)
    shape: dict = field(default_factory=dict)

    def __str__(self):
        return f"{self.data}, {', '.join(f'{size} {value}' for size, value in self.sizes.items())}"

    def to_json(self) -> dict:
        """Return the fields as plain JSON values."""
        return asdict(self)

    @property
    def entry(self) -> ModelEntry:
        """The model's entry in the registry."""
        return entry_of(self.model)

    @property
    def data(self):
        """The description of the synthetic data."""
        return self.entry.synthetic(self.sizes, **self.shape)

    @property
    def examples(self) -> int:
        """The number of examples in a microbatch, e.g. words or images."""
        return self.data.examples

    def make_model(self, **more):
        """Return the model. Local; it allocates no parameters. more: sizes, or dtype."""
        return self.entry.model(**{**self.data.sizes, **self.sizes, **more})

    def make_data(self, microbatches: int, seed: int = 0, steps: int = STEPS):
        """Return a ``Data`` of ``steps`` steps, V = ``microbatches``; the same on every rank. Local."""
        return self.data.make(microbatches, seed, steps)

    def make_heldout(self, microbatches: int, seed: int = 0):
        """Return a held-out ``Data`` of one step. Local. Raises AttributeError if there is none."""
        return self.data.make_heldout(microbatches, seed)


@dataclass(frozen=True)
class ByLength:
    """Workloads in sentences of several lengths, for the paper's sparsity-degree experiment.

    workloads: words of a sentence -> workload, the longest first.  flop: of a microbatch of the longest sentences at
    the paper's size.  elements: of the variables sent whole at the paper's size; ``our_elements``: at our size.
    """

    workloads: dict[int, Workload]
    flop: float
    elements: int
    our_elements: int


@dataclass(frozen=True)
class BoundedTraining:
    """A small training with known bounds for the results of any correct device: see ``refimpl bench gpu``.

    what: its description in reports.  still: variables that hardly change at first; they are not compared with a bound.
    """

    what: str
    workload: Workload
    dtype: str
    optimizer: str
    learning_rate: float
    steps: int
    still: tuple = ()


@dataclass(frozen=True)
class Paper:
    """A model at the paper's size (docs/paper.md, Models).

    dense, sparse: elements.  alpha: fraction of all elements that a worker touches.  examples: per GPU and step.
    flop: of an example, forward and backward.  efficiency: the assumed fraction of a GPU's peak.
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
        """The elements of the rows that a worker touches: alpha (dense + sparse) - dense, because dense α is 1."""
        return self.alpha * (self.dense + self.sparse) - self.dense
