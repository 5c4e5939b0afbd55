"""Batches that grow when a learning rate would decay: both reduce the noise of SGD, ηn/B, equally (Smith et al. 2018).

    stage k = ⌊step / every⌋     a microbatch has b · factor^k examples; V, the tree and the plan do not change

Each stage begins a new epoch. The batch stops growing when a step contains all examples.
"""

from functools import cached_property
from typing import Callable

from models.data.protocol import Data, fingerprint_of


class GrowingBatches:
    """A ``Data`` whose microbatches hold ``factor`` times as many examples after ``every`` steps. Local.

    cut: cut(number) -> Data whose microbatches hold ``number`` times as many; it raises ValueError for too many.
    """

    def __init__(self, cut: Callable[[int], Data], factor: int, every: int):
        if factor < 2 or every < 1:
            raise ValueError(f"batches that grow {factor} times after {every} steps: give 2 or more, and 1 or more")
        self.every, self.factor, self.stages = every, factor, [cut(1)]
        while self.stages[-1].steps_per_epoch > 1:
            try:
                self.stages.append(cut(factor ** len(self.stages)))
            except ValueError:
                break
        self.microbatches, self.steps_per_epoch = self.stages[0].microbatches, self.stages[0].steps_per_epoch

    @cached_property
    def fingerprint(self) -> str:
        return fingerprint_of("growing", self.stages[0].fingerprint, self.factor, self.every)

    def at(self, step: int) -> tuple[Data, int]:
        """Return the data of a step's stage, and the step's number in it."""
        stage = min(max(step, 0) // self.every, len(self.stages) - 1)
        return self.stages[stage], step - stage * self.every

    def examples(self, step: int) -> int:
        data, number = self.at(step)
        return data.examples(number)

    def microbatch(self, step: int, index: int):
        data, number = self.at(step)
        return data.microbatch(number, index)

    def starts_epoch(self, step: int) -> bool:
        data, number = self.at(step)
        return data.starts_epoch(number)
