"""What the trials train: a small honest model and its data, which tell a watcher outside how far the training is.

A linear model, y = x @ weight + bias, x = table[id] + state / 2: rows, dense variables, carried state, evaluation.
"""

import os
import time

import numpy as np

from kernels import aggregate_rows
from models import Uniform, Variable
from models.data import Examples
from refimpl.transport.job.host import JOB_VARIABLES

MARKS = "REFIMPL_FAULTS_MARKS"
"""Environment variable: the file to which rank 0 appends "setup", "step K", "evaluate", as it comes there."""
ROWS, MICROBATCHES, SIZE = 50, 6, 4
COMMON = ("--microbatches", str(MICROBATCHES), "--microbatch-size", str(SIZE), "--optimizer", "adam",
          "--learning-rate", "0.01", "--rate", "cosine", "--warmup", "2", "--clip-norm", "0.05",
          "--weight-decay", "0.01")
"""Options of every trial's training: much for a damaged file to change."""
PAUSE = 0.01  # seconds of an evaluated microbatch: an evaluation is long enough to be met


class Subject:
    """The model; see the module's first lines. Local."""

    def __init__(self):
        self.variables = [Variable("table", (ROWS, 3), sparse=True, initial=Uniform(0.5)),
                          Variable("weight", (3, 4), initial=Uniform(0.5)), Variable("bias", (4,), decays=False)]

    def rows_needed(self, batch):
        """Return the rows of a microbatch's ids."""
        return {"table": np.unique(batch.inputs)}

    def loss_and_gradients(self, dense, rows, batch):
        """Return half of the squared error / normaliser, and its gradients."""
        ids = batch.inputs
        x = rows["table"][np.searchsorted(np.unique(ids), ids)] + batch.state.get("last", np.zeros(3, np.float32)) / 2
        batch.state["last"] = x.mean(axis=0)
        error = x @ dense["weight"] + dense["bias"] - batch.targets
        slope = error / np.float32(batch.normaliser)
        return float((slope * error).sum()) / 2, {
            "table": aggregate_rows(ids, slope @ dense["weight"].T), "weight": x.T @ slope, "bias": slope.sum(axis=0)}

    def evaluate(self, dense, tables, batch):
        """Return the squared error over a microbatch."""
        mark("evaluate")
        if MARKS in os.environ:
            time.sleep(PAUSE)
        error = tables["table"][batch.inputs] @ dense["weight"] + dense["bias"] - batch.targets
        return {"loss": float((error**2).sum()), "count": len(error)}


class Watched(Examples):
    """Examples that leave a mark at each step."""

    def microbatch(self, step, index):
        """Return the microbatch, as ``Examples``."""
        mark(f"step {step}")
        return super().microbatch(step, index)


def draw(microbatches, size, kind=Watched):
    """Return (training data, held-out data): 240 and 48 examples. Local."""
    mark("setup")
    rng = np.random.default_rng(1)
    ids, targets = rng.integers(0, ROWS, 288), rng.standard_normal((288, 4)).astype(np.float32)
    return kind(ids[:240], targets[:240], microbatches, size, 1), Examples(ids[240:], targets[240:], microbatches, size)


def rank() -> int:
    """Return this process's rank by the launcher's word, 0 without one. Local: knows no MPI."""
    return int(next((os.environ[name] for name in JOB_VARIABLES if name in os.environ), 0))


def mark(what: str, everywhere: bool = False):
    """Leave a mark on rank 0, or everywhere, if a watcher asked for it. Local."""
    if MARKS in os.environ and (everywhere or rank() == 0):
        with open(os.environ[MARKS], "a") as file:
            file.write(what + "\n")


def arguments(*more: str, module: str = "subject", model: str = "Subject") -> list[str]:
    """Return what follows ``python -m refimpl`` for a training of it, or of another module's model. Local."""
    here = f"{__package__}.{module}"
    return ["train", "--model", f"{here}:{model}", "--data", f"{here}:draw", *COMMON, *more]
