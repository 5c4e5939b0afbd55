"""CPU against GPU, in the report of ``bench gpu``: how far two trainings are apart, and how far they could be.

Each training runs on the CPU, on the GPU, and on enclosures (``refimpl.conformance.enclosure``), step by step, as long
as these say something: small models, of every kind of layer, in float32, and with more layers and steps in float64.
"""

from dataclasses import asdict, dataclass
from typing import Any, Callable

import numpy as np

from kernels.update import OPTIMIZERS
from models.registry import entries
from models.workload import Bounded
from refimpl.conformance.enclosure import enclosed_steps
from refimpl.conformance.enclosure.compare import check, distances
from refimpl.training.options import Options
from refimpl.training.run.whole import gather_arrays
from refimpl.training.trainer import Trainer
from refimpl.transport import Communicator


@dataclass(frozen=True)
class Training:
    """What is trained on both. make: returns model and data."""

    name: str
    make: Callable[[], tuple[Any, Any]]
    optimizer: str
    learning_rate: float
    steps: int

    def options(self, device: str) -> Options:
        """Return the trainer's options."""
        return Options(device=device, optimizer=self.optimizer, learning_rate=self.learning_rate, steps=self.steps,
                       clip_norm=0.1, weight_decay=5e-4)


@dataclass(frozen=True)
class Row:
    """One step of a training, over all its arrays. apart: largest difference of an element between CPU and GPU.

    bound: largest difference that is possible.  share: largest difference as a part of that element's bound.
    way: the bound as a part of the longest way that a parameter has gone: from 1 on nothing is said any more.
    error: what lies outside its enclosure, None: nothing does.
    """

    name: str
    step: int
    apart: float
    bound: float
    share: float
    way: float
    error: str | None

    def __str__(self):
        said = f"{self.name}, step {self.step}: CPU and GPU {self.apart:.2g} apart, {self.bound:.2g} possible"
        return f"{said}; OUTSIDE: {self.error}" if self.error else f"{said} ({self.share:.1%} of an element's own)"


def _training(model: str, small: Bounded) -> Training:
    def make():
        return small.workload.make_model(dtype=small.dtype), small.workload.make_data(4)

    return Training(f"{model.upper()} {small.what}", make, small.optimizer, small.learning_rate, small.steps)


TRAININGS = tuple(_training(model, small) for model, entry in entries().items() for small in entry.bounds)


def run(trainings=TRAININGS) -> list[dict]:
    """Return a row for each step of each training, as plain data. Local."""
    return [asdict(row) for training in trainings for row in compare(training)]


def compare(training: Training):
    """Yield the rows of a training. Local."""
    trainers = [Trainer.open(*training.make(), training.options(on), Communicator.alone()) for on in ("cpu", "cuda")]
    slots = OPTIMIZERS[training.optimizer].state

    def arrays_of(trainer):
        return {key: np.array(array, np.float64) for key, array in gather_arrays(trainer.parameters, slots).items()}

    start = arrays_of(trainers[0])
    for state, _ in enclosed_steps(*training.make(), training.options("cpu"), training.steps):
        for trainer in trainers:
            trainer.train_step()
        found = [arrays_of(trainer) for trainer in trainers]
        yield row_of(training.name, state, start, *found)


def row_of(name, state, start, cpu, gpu) -> Row:
    """Return what is to be said of one step. start, cpu, gpu: key -> array. Local."""
    apart = {key: np.abs(cpu[key] - gpu[key]) for key in cpu}
    bound = {key: 2 * enclosure.radius for key, enclosure in state.arrays.items()}
    share = max(float(np.max(apart[key][bound[key] > 0] / bound[key][bound[key] > 0], initial=0)) for key in bound)
    way = max(float(bound[key].max(initial=0) / max(np.abs(cpu[key] - start[key]).max(initial=0), 1e-300))
              for key in bound if key.startswith("parameter/"))
    errors = []
    for device, found in (("CPU", cpu), ("GPU", gpu)):
        try:
            check(state.step, distances(state, found))
        except AssertionError as problem:
            errors.append(f"{device}: {problem}")
    return Row(name, state.step, max(float(a.max(initial=0)) for a in apart.values()),
               max(float(b.max(initial=0)) for b in bound.values()), share, way, "; ".join(errors) or None)
