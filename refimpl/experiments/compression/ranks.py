"""The work of each rank: our steps and PyTorch's in turns, the same steps alone, and trainings to a held-out loss."""

import json
import statistics
import time
from dataclasses import dataclass, replace

import numpy as np

from models.data.examples import Examples
from models.recipe import Recipe, build
from models.registry import ModelEntry, entry_of
from refimpl.experiments.bench.peers import join_gloo, peer_work
from refimpl.experiments.bench.timing import race_steps, take_turns
from refimpl.experiments.cells.cell import allreduce_of
from refimpl.experiments.compression import CHANGED, CODECS, HOOKS
from refimpl.training.evaluate import evaluate
from refimpl.training.options import Options
from refimpl.training.trainer import Trainer
from refimpl.transport import Communicator

WARM, ALONE = 3, 5
"""Steps that do not count, because PyTorch's first buckets and PowerSGD's first steps differ; turns of a step alone."""
HELDOUT_STEPS = 4  # at most


@dataclass(frozen=True)
class LearningWorkload:
    """A recipe as a workload of benchmarks (``models.workload``), but with data from which a model learns."""

    recipe: Recipe

    @property
    def model(self) -> str:
        """The model's name."""
        return self.recipe.model

    @property
    def entry(self) -> ModelEntry:
        """The model's entry in the registry, with the experiment's options."""
        entry = entry_of(self.recipe.model)
        return replace(entry, defaults={**entry.defaults, **CHANGED.get(self.recipe.model, {})})

    def make_model(self):
        """Return the model. Local."""
        return build(self.recipe, 0)[0]

    def make_data(self, microbatches: int):
        """Return the data, V = ``microbatches``, without the last examples if they do not fill a step. Local.

        In DDP each rank must have examples in each step.
        """
        data = build(replace(self.recipe, microbatches=microbatches), 0)[1]
        if isinstance(data, Examples):
            whole = data.count // (microbatches * data.size) * microbatches * data.size
            data.inputs, data.targets = data.inputs[:whole], data.targets[:whole]
        return data

    def make_heldout(self):
        """Return the held-out data. Local."""
        return build(self.recipe, 0)[2]


def race(comm: Communicator, recipe: dict, seconds: float, rounds: int) -> dict:
    """Time steps; return name -> {"seconds": of turns, "card": bytes of a step, "alone": core seconds}. Collective.
    """
    task, torch = LearningWorkload(Recipe.from_json(recipe)), join_gloo(comm)
    contenders = {name: _contender(comm, task, name)[0] for name in _names(task, torch)}
    turns, card = race_steps(comm, contenders, seconds, rounds)
    del contenders
    alone = comm.share_text(json.dumps({} if comm.rank else _alone(task, torch)))[0]
    return {name: {"seconds": turns[name], "card": card.get(name, [0, 0]), "alone": json.loads(alone)[name]}
            for name in turns}


def learn(comm: Communicator, recipe: dict, steps: int, every: int) -> dict:
    """Return name -> [[step, held-out loss], ...] for the contenders with a held-out loss. Collective."""
    task, found = LearningWorkload(Recipe.from_json(recipe)), {}
    for name in _names(task, join_gloo(comm)):
        step, judge = _contender(comm, task, name)
        if judge is not None:
            found[name] = []
            for number in range(1, steps + 1):
                step()
                if number % every == 0:
                    found[name].append([number, judge()])
    return found


def _alone(task, torch) -> dict[str, float]:
    """Return name -> processor seconds of a step of this rank alone, while the others wait. Local."""
    lonely = {name: _contender(Communicator.alone(), task, name)[0] for name in _names(task, torch)}
    for step in lonely.values():
        for _ in range(WARM):
            step()
    return {name: statistics.median(spent) for name, spent in take_turns(lonely, ALONE, _processor).items()}


def _names(task, torch) -> list[str]:
    """Return the contenders. The language model has sparse gradients, which PyTorch's hooks cannot encode."""
    hooks = [name for name, hook in HOOKS.items() if not hook or task.model != "lm"]
    return [*CODECS, *(hooks if torch is not None else [])]


def _contender(comm, task, name):
    """Return its step, and a function that returns its held-out loss, or None. Collective."""
    data = task.make_data(comm.size)
    if name in CODECS:
        options = Options(**task.entry.optimizer, steps=10**6, codec=CODECS[name], shared_memory=False,
                          allreduce=allreduce_of(comm.size, 1))  # the same for each codec: busy cores time none well
        trainer = Trainer.open(task.make_model(), data, options, comm)
        heldout = task.make_heldout()
        return trainer.train_step, lambda: evaluate(trainer, heldout, HELDOUT_STEPS)["loss"]
    from refimpl.experiments.bench.peers.torch_replica import DdpReplica

    work = peer_work(task)
    replica = DdpReplica(work, work.data(comm.size), comm.rank, HOOKS[name], comm.size == 1)
    return replica.step, None if task.model == "lm" else lambda: _judged(comm, work, replica, task.make_heldout())


def _judged(comm, work, replica, heldout) -> float:
    """Return the mean held-out loss of a network for images. Collective."""
    from refimpl.torch.tensors import on_device

    replica.module.eval()
    sums = np.zeros(2)
    for step in range(min(HELDOUT_STEPS, heldout.steps_per_epoch)):
        if (batch := heldout.microbatch(step, comm.rank)) is not None:
            sums += work.loss(replica.module, on_device(batch, replica.device)).item(), len(batch.targets)
    replica.module.train()
    loss, count = comm.share(sums, "evaluate").sum(axis=0)
    return loss / count


def _processor(_, step) -> float:
    """Return the processor seconds of a step. Local."""
    begin = time.process_time()
    step()
    return time.process_time() - begin
