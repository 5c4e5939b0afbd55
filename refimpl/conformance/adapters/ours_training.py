"""Our trainer on given gradients, losses and examples: the model returns the given values."""

import tempfile

import numpy as np

from kernels import aggregate_rows
from kernels.random import key_of, uniform
from models import Batch, Variable
from models.data import Examples
from refimpl.conformance.traces.record import Given
from refimpl.training.options import Options
from refimpl.training.run.checkpoint import load_checkpoint, save_checkpoint
from refimpl.training.trainer import Trainer


class GivenGradients:
    """A model whose gradients are in its batches: name -> array or (ids, rows), already divided; ``loss`` too."""

    def __init__(self, variables):
        self.variables = list(variables)

    def rows_needed(self, batch):
        return {v.name: np.unique(batch.inputs[v.name][0]) for v in self.variables if v.sparse}

    def loss_and_gradients(self, dense, rows, batch):
        return batch.targets, {v.name: aggregate_rows(*batch.inputs[v.name]) if v.sparse else batch.inputs[v.name]
                               for v in self.variables}


class GivenData:
    """steps[s][v]: (inputs, targets) of this rank's microbatch v, None where it has no examples. normaliser: of a step.
    """

    fingerprint = "0" * 64

    def __init__(self, steps, microbatches, normaliser=1):
        self.steps, self.microbatches, self.steps_per_epoch = steps, microbatches, len(steps)
        self.normaliser = normaliser

    def examples(self, step):
        return self.normaliser

    def starts_epoch(self, step):
        return step == 0

    def microbatch(self, step, index):
        given = self.steps[step].get(index)
        return None if given is None else Batch(*given, normaliser=self.normaliser)


class TrainingAdapter:
    """The functions of stages update and model. ``comm`` and ``settings`` are the subclass's."""

    def update(self, task) -> list[dict]:
        """Train: each micro-step of a window is a microbatch, W to a rank."""
        size, window = self.comm.size, task.window
        variables = [Variable(v.name, v.shape, v.sparse, Given.of(task.start[v.name]), v.dtype) for v in task.variables]
        data = GivenData(self._windows(task), size * window)
        trainer = self._trainer(variables, data, task)
        seen = []
        for _ in data.steps:
            if trainer.step == task.resume_after:
                trainer = self._resumed(trainer, variables, data, task)
            trainer.train_step()
            seen.append({v.name: np.array(trainer.parameters.collect(v.name, everyone=True)) for v in variables})
        return seen

    accumulate = resume = update

    def _windows(self, task) -> list[dict]:
        """Return this rank's microbatches of each update, divided by what is averaged over."""
        result = []
        for first in range(0, len(task.steps), task.window):
            window = task.steps[first:first + task.window]
            result.append({self.comm.rank * task.window + i: (divided(step, self.comm.size * len(window)), 0.0)
                           for i, step in enumerate(window)})
        return result

    def _trainer(self, variables, data, task) -> Trainer:
        numbers = {n: v for n, v in task.options.items() if n not in ("initial", "decay")}
        options = Options(optimizer=task.optimizer, learning_rate=task.rate, optimizer_options=numbers,
                          weight_decay=task.options.get("decay", 0.0),
                          clip_norm=task.clip, steps=len(data.steps), **self.settings)
        return Trainer.open(GivenGradients(variables), data, options, self.comm)

    def _resumed(self, trainer, variables, data, task) -> Trainer:
        """Save, forget, and go on from what was saved."""
        with tempfile.TemporaryDirectory() as folder:
            folder = self.comm.share_text(folder)[0]
            save_checkpoint(trainer, folder, {})
            fresh = self._trainer(variables, data, task)
            load_checkpoint(fresh, folder)
            self.comm.agree()  # all have read it
        return fresh

    def reduce_loss(self, losses, gradients):
        """Train one step from 0 with sgd at rate 1: the loss is the metric, the gradient minus the value."""
        count = int(self.comm.share(np.array([len(losses)], np.int64), "norm").sum())
        mine = {"gradient": gradients.sum(axis=0) / count}, float(losses.sum()) / count
        data = GivenData([{self.comm.rank: mine if len(losses) else None}], self.comm.size)
        variable = Variable("gradient", gradients.shape[1:], dtype="float64")
        trainer = Trainer.open(GivenGradients([variable]), data, Options(optimizer="sgd", learning_rate=1.0, steps=1,
                                                                         **self.settings), self.comm)
        loss = trainer.train_step()["loss"]
        return np.asarray(loss), -np.array(trainer.parameters.collect("gradient", everyone=True))

    def sample(self, count, epoch):
        """Return the examples in this rank's microbatches of one epoch."""
        data = Examples(np.arange(count), np.zeros(count), self.comm.size, 1)
        steps = range(epoch * data.steps_per_epoch, (epoch + 1) * data.steps_per_epoch)
        batches = [data.microbatch(step, self.comm.rank) for step in steps]
        return np.concatenate([np.empty(0, np.int64), *(b.inputs for b in batches if b is not None)])

    def draw(self, count, step):
        """Return what a layer's dropout is made of, in this rank's microbatch."""
        return uniform(key_of(0, "microbatch", step, self.comm.rank), count)


def divided(gradients, divisor) -> dict:
    """Return name -> array or (ids, rows), divided in its own precision. Local."""
    return {n: (p[0], p[1] / p[1].dtype.type(divisor)) if isinstance(p, tuple) else p / p.dtype.type(divisor)
            for n, p in gradients.items()}
