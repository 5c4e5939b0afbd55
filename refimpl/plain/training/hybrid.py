"""Hybrid training: dense gradients go by allreduce, rows to a parameter server. The result is that of one device.

    strategies   {variable name: where the variable is kept and how its gradient travels}
    a step       pull the values that the microbatches need; compute their gradients; add them up over all ranks, in
                 tree order; clip by the global norm; update the values that this rank keeps

    mpirun -n 4 python -m refimpl.plain.training.hybrid lm --steps 20   # same SHA-256 as refimpl train lm --steps 20
"""

import os

if __name__ == "__main__":  # NumPy reads these when it is imported. More threads may add in another order
    os.environ |= {f"{library}_NUM_THREADS": "1" for library in ("OPENBLAS", "OMP", "MKL", "NUMBA")}

import argparse
import hashlib
import math
from dataclasses import dataclass, field

import numpy as np
from mpi4py import MPI

from kernels.rows.definition import merge_rows
from models.recipe import build, recipe_of
from models.registry import MODELS
from refimpl.plain.adding.tree import form_nodes
from refimpl.plain.messages import Messages
from refimpl.plain.strategies.dense_server import DenseServer
from refimpl.plain.strategies.reduce_scatter import ReduceScatter
from refimpl.plain.strategies.replicas import GatheredRows, Replica
from refimpl.plain.strategies.server import Server
from refimpl.plain.training.worker import Worker
from refimpl.plain.updating.clipping import Optimizer, exact_sum, squares

ARCHITECTURES = {"hybrid": (Replica, Server), "ps": (DenseServer, Server), "allreduce": (Replica, GatheredRows),
                 "sharded-optimizer": (ReduceScatter, Server)}
"""Architecture -> (the strategy of dense variables, that of sparse ones)."""


@dataclass(frozen=True)
class Options:
    """What the result depends on besides model and data. ``refimpl train`` has options of the same names.

    rate: how the learning rate changes from step to step.  warmup: the steps in which it rises at the beginning.
    rate_steps: the step after which it no longer changes.  clip_norm: the largest norm of the gradient, or None.
    optimizer_options: the arguments of the optimizer's class.  average_sparse: rows get the mean over the microbatches,
    as dense variables do; False: they get the sum.
    """

    optimizer: str
    learning_rate: float
    rate: str = "constant"
    warmup: int = 0
    rate_steps: int = 300
    clip_norm: float | None = None
    weight_decay: float = 0.0
    optimizer_options: dict = field(default_factory=dict)
    average_sparse: bool = True
    seed: int = 0


class Hybrid:
    """A training on all ranks of ``comm``. loss, norm: those of the global batch in the last step.

    model, data: see ``models``.  If there are more ranks than microbatches, some ranks only keep rows.
    """

    def __init__(self, model, data, options, comm, architecture="hybrid"):
        self.variables, self.microbatches, self.steps_done = model.variables, data.microbatches, 0
        self.messages, (dense, sparse) = Messages(comm), ARCHITECTURES[architecture]
        self.strategies = {v.name: (sparse if v.sparse else dense)(self.messages, v, options.seed, data.microbatches)
                           for v in model.variables}
        self.worker = Worker(model, data, options.seed, self.strategies, self.messages.rank, self.messages.size)
        values = {name: strategy.values for name, strategy in self.strategies.items()}
        self.optimizer = Optimizer(model.variables, values, options)

    def step(self):
        """Do one step. Collective."""
        losses, gradients = self.worker.compute(self.steps_done)
        sums = {}
        for v in self.variables:
            nodes = form_nodes(self.worker.first, gradients[v.name], merge_rows if v.sparse else np.add)
            sums[v.name] = self.strategies[v.name].push(nodes)
        counted = [v for v in self.variables  # all replicas have the same sum: count it once
                   if self.messages.rank == 0 or not isinstance(self.strategies[v.name], Replica)]
        self.loss = exact_sum(self.messages, losses)
        self.norm = math.sqrt(exact_sum(self.messages, squares(counted, sums)))
        self.optimizer.update(self.steps_done, sums, self.norm, self.microbatches)
        self.steps_done += 1

    def sha256(self):
        """Return the hash of all parameters. Collective."""
        return sha256_of(self.strategies)


def sha256_of(strategies):
    """Return the hash of all parameters, as a training prints it. strategies: name -> strategy. Collective."""
    digest = hashlib.sha256()
    for name, strategy in sorted(strategies.items()):
        whole = strategy.whole(strategy.values)
        digest.update(f"parameter/{name} {whole.dtype.str} {whole.shape}\n".encode() + whole.tobytes())
    return digest.hexdigest()


def main(comm=MPI.COMM_WORLD):
    """Train a model as ``refimpl train`` does by default; print its hash and this rank's bytes."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("model", choices=MODELS)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--architecture", choices=ARCHITECTURES, default="hybrid")
    asked = parser.parse_args()
    recipe, chosen = recipe_of(asked.model, {"rate_steps": asked.steps})
    options = Options(**chosen)
    training = Hybrid(*build(recipe, options.seed)[:2], options, comm, asked.architecture)
    for _ in range(asked.steps):
        training.step()
        if comm.rank == 0:
            print(f"step {training.steps_done}  loss {training.loss:.4f}  norm {training.norm:.4f}", flush=True)
    sent = ", ".join(f"{phase} {n:,} B" for phase, n in training.messages.sent.items())
    training.messages.tell(f"sent in all: {sent or 'nothing'}; parameters sha256 {training.sha256()}")


if __name__ == "__main__":
    main()
