"""What ``bench torch`` trains, on both sides: a module, its loss, its data and its optimizer.

lm:          the language model of ``bench training``, whose peer it is, its sparse tables and all
recommender: that of docs/examples/torch_recommender.py, of four tables
cnn:         the residual network of ``bench step``, all dense
"""

import importlib.util
from copy import copy
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Callable

import torch
from torch.nn import functional

from kernels.random import key_of
from models.candidates import Candidates, draw_candidates
from models.lm import PRESETS
from models.registry import workloads_for
from models.workload import Workload
from refimpl.experiments.bench.peers.torch_cnn import TorchConvNet
from refimpl.experiments.bench.peers.torch_lm import TorchLanguageModel
from refimpl.torch import TorchData

EXAMPLE = Path(__file__).parents[4] / "docs" / "examples" / "torch_recommender.py"


@dataclass(frozen=True)
class Work:
    """A training, the same for both sides.

    make: make() -> the module, at the same values on every rank.  loss: loss(module, batch) -> sum over a microbatch.
    data: data(V) -> a ``models.Data``.  options: of ``Options``, the optimizer's.  unit: what its examples are called.
    optimizer: optimizer(parameters) -> PyTorch's, of the same mathematics.
    quick_dense: tables so small that DDP is quicker with dense gradients of them, which share a bucket with others.
    """

    size: str
    unit: str
    make: Callable[[], torch.nn.Module]
    loss: Callable
    data: Callable[[int], Any]
    options: dict
    optimizer: Callable
    quick_dense: tuple = ()


def work_of(name: str, small: bool = False) -> Work:
    """Return a work by its name. Local. small: of a size to see that it runs."""
    if name == "lm":
        return language_model(Workload("small", "lm", {**PRESETS["tiny"], "vocabulary": 500}, dict(streams=2, window=5))
                              if small else workloads_for("training")[0])
    return {"recommender": recommender, "cnn": network}[name](small)


def adagrad(rate, parameters):
    """Return PyTorch's Adagrad that begins and divides as ours does. Local."""
    return torch.optim.Adagrad(parameters, lr=rate, initial_accumulator_value=1.0, eps=0.0)


def language_model(workload: Workload) -> Work:
    """Return the work of a language model's workload. Local."""
    model, options = workload.make_model(), workload.entry.optimizer

    def loss(module, batch):
        words, ids, tries = batch.inputs
        state = (batch.state["h"], batch.state["c"]) if batch.state else None
        mean, (h, c) = module(words, batch.targets, state, Candidates(ids.numpy(), tries, model.vocabulary))
        batch.state.update(h=h, c=c)
        return mean * batch.targets.numel()

    return Work(
        str(workload), workload.entry.unit, lambda: TorchLanguageModel(
            model, {v.name: v.initial_value(0) for v in model.variables}), loss,
        lambda microbatches: Drawn(workload.make_data(microbatches), model.samples, model.vocabulary), options,
        partial(adagrad, options["learning_rate"]))


class Drawn:
    """Text whose microbatches bring the candidates of their softmax: inputs are (words, candidates, tries). Local."""

    def __init__(self, data, samples: int, vocabulary: int):
        self.data, self.samples, self.vocabulary = data, samples, vocabulary
        self.microbatches, self.fingerprint = data.microbatches, data.fingerprint
        self.examples, self.starts_epoch = data.examples, data.starts_epoch

    def microbatch(self, step: int, index: int):
        batch = copy(self.data.microbatch(step, index))
        drawn = draw_candidates(key_of("bench", "candidates", step, index), self.samples, self.vocabulary)
        batch.inputs = (batch.inputs, drawn.ids, drawn.tries)
        return batch


def recommender(small: bool) -> Work:
    """Return the work of the example's recommender, with the example's rate. Local.

    Raises ValueError where the examples are not at hand.
    """
    if not EXAMPLE.exists():
        raise ValueError(f"{EXAMPLE} is missing, whose recommender is trained: run bench torch in a copy of the "
                         "project's repository")
    spec = importlib.util.spec_from_file_location("torch_recommender", EXAMPLE)
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    data, size = (example.Clicks(1024), 16) if small else (example.Clicks(), 512)
    return Work(
        f"{size} examples, visitors {example.VISITORS}, items {example.ITEMS}, width 32", "examples",
        _seeded(example.Recommender), lambda module, batch: module(batch.inputs, batch.targets),
        lambda microbatches: TorchData(data, microbatches, size, collate=example.itself),
        dict(optimizer="adagrad", learning_rate=0.05), partial(adagrad, 0.05), ("countries",))


def network(small: bool) -> Work:
    """Return the work of the residual network, on random images. Local."""
    workload = (Workload("small", "cnn", dict(width=4, blocks=(1,)), dict(images=2, image_size=8)) if small else
                Workload("torch", "cnn", dict(width=32, blocks=(1, 1, 1)), dict(images=16, image_size=32)))
    model, options = workload.make_model(), workload.entry.optimizer

    def loss(module, batch):
        x = batch.inputs.permute(0, 3, 1, 2).float() / 127.5 - 1
        return functional.cross_entropy(module(x), batch.targets, reduction="sum")

    return Work(str(workload), workload.entry.unit, _seeded(partial(TorchConvNet, model)), loss, workload.make_data,
                options, partial(torch.optim.SGD, lr=options["learning_rate"], momentum=0.9))


def _seeded(make):
    def made():
        torch.manual_seed(1)
        return make()

    return made
