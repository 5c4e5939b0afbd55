"""What the trainer asks of data: microbatches by step and number, whoever holds them."""

from typing import Protocol, runtime_checkable

from models import Batch


@runtime_checkable
class Data(Protocol):
    """Training examples cut into V microbatches a step: a function of (step, index), without ranks or order of calls.

    ``Examples`` and ``TokenStreams`` are such; so is anything with these members.
    """

    @property
    def microbatches(self) -> int:
        """V, pieces of the global batch; any rank may ask for any of them."""

    @property
    def steps_per_epoch(self) -> int:
        """Steps in which every example is used exactly once; 0 if there are no examples."""

    @property
    def fingerprint(self) -> str:
        """Hex SHA-256 of examples and cutting; ranks that differ here must not train together."""

    def examples(self, step: int) -> int:
        """Return the number of targets in the whole global batch of ``step``: its ``Batch.normaliser``.

        Its microbatches hold so many, which all ranks count together: where weights are not 0, else targets; over as
        many of their leading axes as fits in the first step. (Targets that are no arrays are not counted.)
        """

    def microbatch(self, step: int, index: int) -> Batch | None:
        """Return microbatch ``index`` of ``step``, or None if no target falls to it. The trainer sets key and state.

        Asked again it gives the same, in arrays that nobody writes to before the step is done.
        """

    def starts_epoch(self, step: int) -> bool:
        """Return True if ``step`` is the first of an epoch: state that is carried from step to step begins anew."""


def require_step(data: Data, step: int, index: int = 0):
    """Raise ValueError unless ``data`` has such a step and microbatch. Local."""
    if not data.steps_per_epoch:
        raise ValueError("there are no examples to train on: steps_per_epoch is 0")
    if step < 0:
        raise ValueError(f"step must not be negative, it is {step}")
    if not 0 <= index < data.microbatches:
        raise ValueError(f"microbatch {index} of {data.microbatches}: must be 0 to {data.microbatches - 1}")


def require_filled(data: Data):
    """Raise ValueError if there are more microbatches than examples in a step: some would never have one. Local."""
    most = data.examples(0) if data.steps_per_epoch else 0
    if 0 < most < data.microbatches:
        raise ValueError(f"{data.microbatches} microbatches: the data have {most} examples for a step, and each "
                         f"microbatch needs one at least; give --microbatches {most} or fewer")
