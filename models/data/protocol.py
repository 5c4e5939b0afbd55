"""The interface of training data: microbatches by step and number."""

import hashlib
from typing import Protocol, runtime_checkable

import numpy as np

from models import Batch


@runtime_checkable
class Data(Protocol):
    """Training examples, V microbatches in each step. A microbatch depends only on (step, index), not on the rank.

    ``Examples`` and ``TokenStreams`` implement this protocol; so does any object with these members.
    """

    @property
    def microbatches(self) -> int:
        """V, the number of microbatches in a global batch; any rank may read any of them."""

    @property
    def steps_per_epoch(self) -> int:
        """The number of steps in which every example is used exactly once; 0 if there are no examples."""

    @property
    def fingerprint(self) -> str:
        """Hex SHA-256 of the examples and their cutting; ranks with different fingerprints must not train together."""

    def examples(self, step: int) -> int:
        """Return the number of targets in the whole global batch of ``step``: its ``Batch.normaliser``.

        The trainer checks it. In each step all ranks count the weights that are not 0, or the targets if weights is
        None, over as many leading axes as gave the right number in the first step. (Only arrays are counted.)
        """

    def microbatch(self, step: int, index: int) -> Batch | None:
        """Return microbatch ``index`` of ``step``, or None if it has no target. The trainer sets key and state.

        A second call returns equal arrays. The arrays must not change before the step ends.
        """

    def starts_epoch(self, step: int) -> bool:
        """Return True if ``step`` is the first of an epoch: state carried between steps is then reset."""


class Epochs:
    """The base of data that repeat after ``steps_per_epoch`` steps."""

    def starts_epoch(self, step: int) -> bool:
        require_step(self, step)
        return step % self.steps_per_epoch == 0


def require_step(data: Data, step: int, index: int = 0):
    """Raise ValueError unless ``data`` has this step and this microbatch. Local."""
    if not data.steps_per_epoch:
        raise ValueError("there are no examples to train on: steps_per_epoch is 0")
    if step < 0:
        raise ValueError(f"step must not be negative, it is {step}")
    if not 0 <= index < data.microbatches:
        raise ValueError(f"microbatch {index} of {data.microbatches}: must be 0 to {data.microbatches - 1}")


def require_filled(data: Data):
    """Raise ValueError if a step has fewer examples than microbatches: some would always be empty. Local."""
    most = data.examples(0) if data.steps_per_epoch else 0
    if 0 < most < data.microbatches:
        raise ValueError(f"{data.microbatches} microbatches: the data have {most} examples for a step, and each "
                         f"microbatch needs one at least; give --microbatches {most} or fewer")


def fingerprint_of(*parts) -> str:
    """Return the hex SHA-256 of the parts: arrays (with dtype and shape), lists of words, ints, strings. Local."""
    digest = hashlib.sha256()
    for part in parts:
        if isinstance(part, np.ndarray):
            digest.update(f"array {part.dtype.str} {part.shape}\n".encode())
            digest.update(np.ascontiguousarray(part).reshape(-1).view(np.uint8))
        elif isinstance(part, (list, tuple)):
            text = "\n".join(map(str, part)).encode()
            digest.update(f"list {len(part)} {len(text)}\n".encode())
            digest.update(text)
        else:
            digest.update(f"{type(part).__name__} {part}\n".encode())
    return digest.hexdigest()
