"""What the trainer asks of data: microbatches by step and number, whoever holds them."""

from collections.abc import Iterator
from typing import Protocol, runtime_checkable

from models import Batch


@runtime_checkable
class Data(Protocol):
    """Training examples cut into V microbatches a step: a function of (step, index), without ranks or order of calls.

    microbatches:    V, pieces of the global batch; any rank may ask for any of them.
    steps_per_epoch: steps in which every example is used exactly once; 0 if there are no examples.
    fingerprint:     hex SHA-256 of examples and cutting; ranks that differ here must not train together.
    """

    @property
    def microbatches(self) -> int: ...

    @property
    def steps_per_epoch(self) -> int: ...

    @property
    def fingerprint(self) -> str: ...

    def examples(self, step: int) -> int:
        """Return the number of targets in the whole global batch of ``step``: its ``Batch.normaliser``."""

    def microbatch(self, step: int, index: int) -> Batch | None:
        """Return microbatch ``index`` of ``step``, or None if no target falls to it. The trainer sets key and state."""

    def starts_epoch(self, step: int) -> bool:
        """Return True if ``step`` is the first of an epoch: state that is carried from step to step begins anew."""


def one_epoch(data: Data) -> Iterator[tuple[int, int, Batch]]:
    """Yield (step, index, batch) for every microbatch of the first epoch: each example exactly once. Local."""
    for step in range(data.steps_per_epoch):
        for index in range(data.microbatches):
            batch = data.microbatch(step, index)
            if batch is not None:
                yield step, index, batch


def require_positive(**values):
    """Raise ValueError unless every value is an int above zero, naming the first that is not. Local."""
    for name, value in values.items():
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise ValueError(f"{name} must be a positive integer, not {value!r}")


def require_step(data: Data, step: int, index: int = 0):
    """Raise ValueError unless ``data`` has such a step and microbatch. Local."""
    if not data.steps_per_epoch:
        raise ValueError("there are no examples to train on: steps_per_epoch is 0")
    if step < 0:
        raise ValueError(f"step must not be negative, it is {step}")
    if not 0 <= index < data.microbatches:
        raise ValueError(f"microbatch {index} of {data.microbatches}: must be 0 to {data.microbatches - 1}")
