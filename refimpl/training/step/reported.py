"""Numbers that a model reports with its loss, such as parts of it: exact sums over the global batch."""

import math

import numpy as np

from refimpl.gradients import ExactSum

PHASE = "metrics"


class Reported:
    """A training's reported numbers, called ``names`` in ``batch.metrics``. Local, except for ``total``."""

    def __init__(self, names):
        self.names = tuple(names)
        self.sums = {name: ExactSum() for name in self.names}

    def take(self, batch):
        """Add the numbers of a microbatch. Raises ValueError for other names, and for numbers that are not finite."""
        if batch.metrics.keys() != self.sums.keys():
            reports = ", ".join(sorted(batch.metrics)) or "nothing"
            raise ValueError(f"microbatch {batch.index} reports {reports}, and the model names "
                             f"{', '.join(self.names) or 'no metrics'}: name all of them, TorchModel(..., "
                             "metrics=[...]), and let every microbatch report each")
        for name, value in batch.metrics.items():
            if not math.isfinite(value):
                raise ValueError(f"microbatch {batch.index} reports {name} {value}: it must be a finite number")
            self.sums[name].add([value])

    def total(self, comm) -> dict[str, float]:
        """Return name -> sum over the step's global batch, and start again. Collective: 8 · 67 bytes for each name."""
        digits = comm.total(np.concatenate([self.sums[name].digits for name in self.names]), PHASE)
        self.sums = {name: ExactSum() for name in self.names}
        return {name: ExactSum(row).value() for name, row in zip(self.names, digits.reshape(len(self.names), -1))}
