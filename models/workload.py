"""What benchmarks and experiments train: sizes of a model and of its microbatches, and synthetic data of that shape."""

from dataclasses import asdict, dataclass, field

from models.registry import ModelEntry, entry_of

STEPS = 16
"""Steps until synthetic data begin anew: more than a measurement has, or enough that they are no one batch."""


@dataclass(frozen=True)
class Workload:
    """A model and its microbatches, as plain data.

    model: its name in the registry.  sizes: of the model.  shape: of a microbatch, see its entry's ``synthetic``.
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
        """The synthetic data, not made yet."""
        return self.entry.synthetic(self.sizes, **self.shape)

    @property
    def examples(self) -> int:
        """Examples in a microbatch, e.g. words or images."""
        return self.data.examples

    def make_model(self, **more):
        """Return the model. Local; it holds no parameters. more: sizes, or dtype."""
        return self.entry.model(**{**self.data.sizes, **self.sizes, **more})

    def make_data(self, microbatches: int, seed: int = 0, steps: int = STEPS):
        """Return a ``Data`` of so many steps, V = ``microbatches``. Local: the same on every rank that asks."""
        return self.data.make(microbatches, seed, steps)

    def make_heldout(self, microbatches: int, seed: int = 0):
        """Return a held-out ``Data`` of one step. Local. Raises AttributeError for data that have none."""
        return self.data.make_heldout(microbatches, seed)


@dataclass(frozen=True)
class ByLength:
    """A workload in sentences of several lengths: the paper's sparsity-degree experiment.

    workloads: words of a sentence -> workload, the longest first.  flop: of the longest's microbatch at the paper's
    size, while ``elements`` are sent whole; ours are ``our_elements``.
    """

    workloads: dict[int, Workload]
    flop: float
    elements: int
    our_elements: int


@dataclass(frozen=True)
class BoundedTraining:
    """A training so small that what any correct device can compute of it is known: see ``refimpl bench gpu``.

    what: said of it beside the model's name.  still: variables that hardly move so early: theirs says nothing of a bound.
    """

    what: str
    workload: Workload
    dtype: str
    optimizer: str
    learning_rate: float
    steps: int
    still: tuple = ()
