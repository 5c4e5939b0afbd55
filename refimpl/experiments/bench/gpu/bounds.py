"""CPU and GPU in the report of ``bench gpu``: the difference of two trainings, and the largest possible difference.

Each training runs on the CPU, on the GPU, and on enclosures (``refimpl.enclosure``), step by step, as long as their
bounds are useful: small models with every kind of layer in float32, and more layers and steps in float64.
"""

from dataclasses import dataclass

import numpy as np

from kernels import to_numpy
from models.registry import entries
from models.workload import BoundedTraining
from refimpl.enclosure import enclosed_steps
from refimpl.enclosure.compare import check, distances
from refimpl.training.options import Options
from refimpl.training.run.whole import kinds_of
from refimpl.training.trainer import Trainer
from refimpl.transport import Communicator


@dataclass(frozen=True)
class BoundsRow:
    """One step of a training, over all its arrays. apart: largest difference of an element between CPU and GPU.

    bound: largest difference that is possible.  share: largest difference as a part of that element's bound.
    moved: the bound as a part of the largest change of a parameter; from 1 on the bound is useless.
    error: the array that lies outside its enclosure; None: none does.
    """

    name: str
    step: int
    apart: float
    bound: float
    share: float
    moved: float
    error: str | None

    def __str__(self):
        said = f"{self.name}, step {self.step}: CPU and GPU {self.apart:.2g} apart, {self.bound:.2g} possible"
        return f"{said}; OUTSIDE: {self.error}" if self.error else f"{said} ({self.share:.1%} of an element's own)"


TRAININGS = tuple((f"{model.upper()} {small.what}", small) for model, entry in entries().items()
                  for small in entry.bounds)
"""The (name, training) of each training that runs on both."""


def options_of(small: BoundedTraining, device: str) -> Options:
    """Return the trainer's options. Local."""
    return Options(device=device, optimizer=small.optimizer, learning_rate=small.learning_rate, steps=small.steps,
                   clip_norm=0.1, weight_decay=5e-4)


def parts_of(small: BoundedTraining):
    """Return the model and the data of a training. Local."""
    return small.workload.make_model(dtype=small.dtype), small.workload.make_data(4)


def compare(name: str, small: BoundedTraining):
    """Yield the rows of a training, one for each step. Local."""
    trainers = [Trainer.open(*parts_of(small), options_of(small, on), Communicator.alone()) for on in ("cpu", "cuda")]

    def arrays_of(trainer):
        return {key: np.array(to_numpy(trainer.parameters.collect(variable.name, slot)), np.float64)
                for key, (variable, slot) in kinds_of(trainer.parameters).items()}

    start = arrays_of(trainers[0])
    for state, _ in enclosed_steps(*parts_of(small), options_of(small, "cpu"), small.steps):
        for trainer in trainers:
            trainer.train_step()
        yield row_of(name, state, start, *map(arrays_of, trainers), small.still)


def row_of(name, state, start, cpu, gpu, still=()) -> BoundsRow:
    """Return the row of one step. start, cpu, gpu: key -> array.  still: see ``BoundedTraining``. Local."""
    apart = {key: np.abs(cpu[key] - gpu[key]) for key in cpu}
    bound = {key: 2 * enclosure.radius for key, enclosure in state.arrays.items()}
    share = max(float(np.max(apart[key][bound[key] > 0] / bound[key][bound[key] > 0], initial=0)) for key in bound)
    moved = max(float(bound[key].max(initial=0) / max(np.abs(cpu[key] - start[key]).max(initial=0), 1e-300))
                for key in bound if key.startswith("parameter/") and key.removeprefix("parameter/") not in still)
    errors = []
    for device, found in (("CPU", cpu), ("GPU", gpu)):
        try:
            check(state.step, distances(state, found))
        except AssertionError as problem:
            errors.append(f"{device}: {problem}")
    return BoundsRow(name, state.step, max(float(a.max(initial=0)) for a in apart.values()),
                     max(float(b.max(initial=0)) for b in bound.values()), share, moved, "; ".join(errors) or None)
