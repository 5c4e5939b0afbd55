"""Small models and data with all a trainer can meet: tails, missing microbatches, carried state, empty gradients."""

import importlib
import os
import time
from types import SimpleNamespace

import numpy as np
import pytest
from mpi4py import MPI

from kernels import RowGradient, aggregate_rows, array_module, take_rows, to_numpy
from kernels.random import dropout_scale, key_of
from models import Batch, Constant, Uniform, Variable
from models.cnn import PRESETS as CNN_PRESETS, ConvNet
from models.data import Examples, TokenStreams
from models.data.pairs.buckets import PairBuckets
from models.data.text.synthetic import load_synthetic
from models.lm import PRESETS as LM_PRESETS, LanguageModel
from models.nmt import PRESETS as NMT_PRESETS, TranslationModel
from models.protocol import unchanged
from models.vgg import PRESETS as VGG_PRESETS, Vgg
from refimpl.plain.training.hybrid import Hybrid
from refimpl.plain.training.large_batches import LargeBatches
from refimpl.plain.updating.layerwise import LAYERWISE
from refimpl.training.options import Options
from refimpl.training.run.whole import hashes, sha256_of
from refimpl.training.trainer import Trainer
from refimpl.transport import CollectiveError


class Toy:
    """A linear model with every kind of variable: rows that few batches touch, a scalar, one without elements.

    y = scale * (x @ weight + bias) + rare[id % 9] where id % 4 == 0;  x = dropout(table[id]) + state / 2
    """

    def __init__(self, rows=50):
        self.variables = [
            Variable("table", (rows, 3), sparse=True, initial=Uniform(0.5)),
            Variable("weight", (3, 4), initial=Uniform(0.5)),
            Variable("empty", (0, 4)),
            Variable("bias", (4,), decays=False),
            Variable("rare", (9, 1), sparse=True, decays=False),
            Variable("scale", (), initial=Constant(1.0), clipped=False),
            Variable("mean", (4,), statistic=True),
        ]

    half = staticmethod(unchanged)

    def rows_needed(self, batch):
        return {"table": np.unique(batch.inputs), "rare": np.unique(batch.inputs % 9)}

    def loss_and_gradients(self, dense, rows, batch):
        xp, ids, fourth = array_module(dense["weight"]), batch.inputs, np.flatnonzero(batch.inputs % 4 == 0)
        rare, targets, where = ids[fourth] % 9, xp.asarray(batch.targets), xp.asarray(fourth)
        drop = dropout_scale(key_of(batch.key, "dropout"), (len(ids), 3), 0.8, "float32", xp)
        x = take_rows(rows["table"], np.searchsorted(np.unique(ids), ids)) * drop
        x = x + batch.state.get("last", xp.zeros(3, np.float32)) / 2
        batch.state["last"] = x.sum(axis=0)
        linear = x @ dense["weight"] + dense["bias"]
        y = dense["scale"] * linear
        y[where] += take_rows(rows["rare"], np.searchsorted(np.unique(ids % 9), rare))
        d = (y - targets) / np.float32(batch.normaliser)
        dx = dense["scale"] * (d @ dense["weight"].T)
        return (d * (y - targets)).sum() / 2, {
            "table": aggregate_rows(ids, dx * drop),
            "rare": aggregate_rows(rare, d[where].sum(axis=1, keepdims=True)),
            "weight": dense["scale"] * (x.T @ d),
            "bias": dense["scale"] * d.sum(axis=0),
            "scale": xp.asarray((d * linear).sum(), np.float32),
            "empty": xp.zeros((0, 4), np.float32),
            "mean": y.sum(axis=0) / np.float32(batch.normaliser),
        }

    def evaluate(self, dense, tables, batch):
        targets = array_module(dense["weight"]).asarray(batch.targets)
        y = dense["scale"] * (take_rows(tables["table"], batch.inputs) @ dense["weight"] + dense["bias"])
        return {"loss": float(((y - targets) ** 2).sum()), "count": len(y)}


class Lying(Toy):
    """A toy that lies where it is ``on``: ``before`` meddles with what it is given, the others with what it returns."""

    def __init__(self, on=True, before=None, after=None, needs=None, evaluation=None):
        super().__init__()
        self.on, self.before, self.after, self.needs, self.kept = on, before, after, needs, []
        self.evaluation = evaluation

    def rows_needed(self, batch):
        found = super().rows_needed(batch)
        return self.needs(self, batch, found) if self.on and self.needs else found

    def loss_and_gradients(self, dense, rows, batch):
        if self.on and self.before:
            self.before(SimpleNamespace(dense=dense, rows=rows, batch=batch, kept=self.kept))
        found = super().loss_and_gradients(dense, rows, batch)
        return self.after(self, batch, found) if self.on and self.after else found

    def evaluate(self, dense, tables, batch):
        found = super().evaluate(dense, tables, batch)
        return self.evaluation(self, batch, found) if self.on and self.evaluation else found


class Scripted:
    """Gradients as the data say: inputs are row numbers, targets their gradient rows; ``dense`` gets their sum."""

    def __init__(self, initial=0.5):
        self.variables = [Variable("rows", (8, 2), sparse=True, initial=Constant(initial)),
                          Variable("dense", (2,), initial=Constant(initial))]

    def rows_needed(self, batch):
        return {"rows": np.unique(batch.inputs)}

    def loss_and_gradients(self, dense, rows, batch):
        targets = array_module(*rows.values()).asarray(batch.targets)
        return 0.0, {"rows": aggregate_rows(batch.inputs, targets), "dense": targets.sum(axis=0)}


class Script:
    """Data for ``Scripted``: steps[s][v] is None or a dict row number -> gradient row."""

    fingerprint = "0" * 64

    def __init__(self, steps):
        self.steps = steps
        self.microbatches, self.steps_per_epoch = len(steps[0]), len(steps)

    def examples(self, step):
        return sum(len(rows) for rows in self.steps[step % len(self.steps)] if rows is not None)

    def starts_epoch(self, step):
        return step % len(self.steps) == 0

    def microbatch(self, step, index):
        rows = self.steps[step % len(self.steps)][index]
        if rows is None:
            return None
        gradients = np.array(list(rows.values()), np.float32).reshape(len(rows), 2)
        return Batch(np.array(list(rows), np.int64), gradients, None, float(self.examples(step)))


class Meddled:
    """The toys' data, where ``on`` this rank's microbatches are what ``meddle(step, index, batch)`` makes of them."""

    def __init__(self, on, meddle, examples=0, since=0):
        self.data, self.on, self.meddle, self.more, self.since = toy_data(), on, meddle, examples, since

    def __getattr__(self, name):
        return getattr(self.data, name)

    def examples(self, step):
        return self.data.examples(step) + self.more * (self.on and step >= self.since)

    def microbatch(self, step, index):
        batch = self.data.microbatch(step, index)
        return self.meddle(step, index, batch) if self.on and step >= self.since and batch is not None else batch


class Recording:
    """A model that notes which rows each microbatch needs and which its gradient touches, call by call."""

    def __init__(self, model):
        self.model, self.variables, self.needed, self.touched = model, model.variables, [], []

    def rows_needed(self, batch):
        self.needed.append(self.model.rows_needed(batch))
        return self.needed[-1]

    def loss_and_gradients(self, dense, rows, batch):
        loss, gradients = self.model.loss_and_gradients(dense, rows, batch)
        self.touched.append({name: g.ids for name, g in gradients.items() if isinstance(g, RowGradient)})
        return loss, gradients


def toy_data(microbatches=8, count=28):
    """28 examples, 24 a step: the second step of an epoch has one whole microbatch, one of 1, and missing ones."""
    rng = np.random.default_rng(1)
    ids, targets = rng.integers(0, 50, count), rng.standard_normal((count, 4)).astype(np.float32)
    return Examples(ids, targets, microbatches, 3, 1)


def lm_data(microbatches=8, pairs=117):
    """With 8 microbatches 16 streams of 7 or 8 pairs, window 4: the second step of an epoch, the last, has padding."""
    return TokenStreams(load_synthetic("50", tokens=pairs + 1, heldout_tokens=0).train, microbatches, 2, 4)


def cnn_data(microbatches=8, count=27):
    """27 images of a batch of 16: the second step has a microbatch of one image and missing ones."""
    rng = np.random.default_rng(2)
    images = rng.integers(0, 256, (count, 8, 8, 1)).astype(np.uint8)
    return Examples(images, rng.integers(0, 5, count), microbatches, 2, 1)


def nmt_data(microbatches=8, count=25):
    """25 sentence pairs in 15 microbatches of up to 2: the second step of an epoch has missing ones."""
    rng, sides = np.random.default_rng(3), []
    for vocabulary in (NMT_PRESETS["tiny"]["source_vocabulary"], NMT_PRESETS["tiny"]["target_vocabulary"]):
        lengths = rng.integers(1, 7, (count, 1))
        sides.append(np.where(np.arange(6) < lengths, rng.integers(3, vocabulary, (count, 6)), -1))
    return PairBuckets(*sides, microbatches, 2, 1)


WORKS = {
    "toy": (Toy, toy_data, {"clip_norm": 0.05, "weight_decay": 0.01}),
    "lm": (lambda: LanguageModel(**LM_PRESETS["tiny"]), lm_data, {"clip_norm": 0.05}),
    "cnn": (lambda: ConvNet((8, 8, 1), 5, **CNN_PRESETS["tiny"]), cnn_data, {"clip_norm": 0.3, "weight_decay": 5e-4}),
    "vgg": (lambda: Vgg((8, 8, 1), 5, **VGG_PRESETS["tiny"]), cnn_data, {"clip_norm": 0.3, "weight_decay": 5e-4}),
    "nmt": (lambda: TranslationModel(**NMT_PRESETS["tiny"]), nmt_data, {"clip_norm": 0.01}),
}
SETTINGS = {
    "allreduce": dict(architecture="allreduce"),
    "as-dense": dict(architecture="allreduce", sparse_as_dense=True),
    "ps": dict(architecture="ps"),
    "hybrid": dict(architecture="hybrid"),
    "reduce-scatter": dict(architecture="hybrid", shard_optimizer=True),
}
"""Every way by which gradients travel. Where rows do, the last two are alike: ``BY_ROWS``."""
WAYS = {**SETTINGS, "hot rows": dict(hot_rows=13, partitions=3), "overlap": dict(overlap=True),
        "other partitions": dict(architecture="ps", partitions=5, scheme="contiguous")}
OF_DENSE = ("allreduce", "ps", "reduce-scatter", "overlap")
"""The ways that differ in what dense gradients do. The others differ in rows."""
BY_ROWS = [SETTINGS[name] for name in ("allreduce", "as-dense", "ps", "hybrid")]
DEVICE = os.environ.get("REFIMPL_TEST_DEVICE", "cpu")
"""Where these trainings run unless a test says so: `make test-gpu` runs them on a GPU, but what a GPU refuses."""

RATES = {"sgd": 0.5, "momentum": 0.1, "nesterov": 0.1, "adagrad": 0.2, "adam": 0.01, "adamw": 0.01, "lars": 5.0,
         "lamb": 0.01}


def device_for(changes):
    """Return where a training with these options runs: on DEVICE, but on the CPU with what a GPU refuses."""
    return "cpu" if {"codec", "precision", "consistency"} & changes.keys() else DEVICE


def make_options(work, optimizer, **changes):
    """Return the options under which a work is trained here: clipping and, where it applies, weight decay are on."""
    return Options(**{"device": device_for(changes), "optimizer": optimizer,
                      "learning_rate": RATES[optimizer], "warmup": 2, "steps": 3, "rate": "cosine", "rate_steps": 20,
                      **WORKS[work][2], **changes})


def make_trainer(work, optimizer, comm, microbatches=8, **changes):
    model, data, _ = WORKS[work]
    return Trainer.open(model(), data(microbatches), make_options(work, optimizer, **changes), comm)


def answer(work, optimizer, comm, steps=3, **changes):
    """Train a work; return what ``answer_of`` does."""
    return answer_of(make_trainer(work, optimizer, comm, **changes), steps)


def answer_of(trainer, steps=1):
    """Do some steps; return (loss, gradient norm, hash of parameters, hash of optimizer state). Collective."""
    for _ in range(steps):
        record = trainer.train_step()
    found = hashes(trainer.parameters)
    return record["loss"], record["gradient_norm"], found["parameters_sha256"], found["state_sha256"]


class NumpyIn:
    """A model that computes with the arrays of ``xp``, for one who has NumPy's: they are taken there and back."""

    def __init__(self, model, xp):
        self.model, self.xp, self.variables, self.rows_needed = model, xp, model.variables, model.rows_needed

    def loss_and_gradients(self, dense, rows, batch):
        there = ({name: self.xp.array(values) for name, values in given.items()} for given in (dense, rows))
        loss, gradients = self.model.loss_and_gradients(*there, batch)
        return float(loss), {name: RowGradient(to_numpy(g.ids), to_numpy(g.rows)) if isinstance(g, RowGradient)
                             else np.array(to_numpy(g) if np.ndim(g) else float(g), g.dtype)
                             for name, g in gradients.items()}


def plain_training(model, data, options, comm=MPI.COMM_SELF, architecture="hybrid"):
    """The plain trainer; where the tests run on a GPU its model computes there."""
    xp = np if options.device == "cpu" else importlib.import_module("cupy")
    kind = LargeBatches if options.optimizer in LAYERWISE else Hybrid
    return kind(NumpyIn(model, xp), data, options, comm, architecture)


def plain_answer(comm, work, optimizer, changes, architecture="hybrid"):
    """Train three steps plainly; return what ``answer`` does."""
    (model, data, _), changes = WORKS[work], dict(changes)
    data = data(changes.pop("microbatches", 8))
    training = plain_training(model(), data, make_options(work, optimizer, **changes), comm, architecture)
    for _ in range(3):
        training.step()
    arrays = {f"state/{slot}/{name}": training.strategies[name].whole(array)
              for name, state in training.optimizer.state.items() for slot, array in state.items()}
    return training.loss, training.norm, training.sha256(), sha256_of(arrays, "state/")


def whole_state(trainer):
    """Return (variable, slot or None) -> whole array, on every rank. Collective."""
    return {(v.name, slot): np.array(to_numpy(trainer.parameters.collect(v.name, slot, everyone=True)))
            for v in trainer.model.variables for slot in (None, *trainer.parameters.slots[v.name])}


def last(comm) -> bool:
    """True on the rank that a test lets go wrong."""
    return comm.rank == comm.size - 1


def named(comm) -> str:
    """How a message begins that names the last rank; one rank alone is not named."""
    return f"rank {comm.size - 1}: " if comm.size > 1 else ""


def raising(error):
    """Return a function that raises the error, whatever it is given."""
    def fault(*_):
        raise error
    return fault


def refusal(comm, work):
    """Return the message that ``work`` ends with: a CollectiveError, the same on every rank, within a minute."""
    begin = time.monotonic()
    with pytest.raises(CollectiveError) as caught:
        work()
    assert time.monotonic() - begin < 60
    messages = comm.allgather(str(caught.value))
    assert len(set(messages)) == 1
    return messages[0]
