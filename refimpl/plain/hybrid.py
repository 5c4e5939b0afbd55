"""Hybrid training: each variable goes the way that suits it, and the numbers are those of one device.

    ways    a dictionary: variable -> where it lives, and how its gradient travels; dense by allreduce, sparse by server
    a step  pull what the microbatches need; compute their gradients; add them up in tree order, over all ranks;
            clip by the global norm; update what this rank keeps

    mpirun -n 4 python -m refimpl.plain.hybrid lm --steps 20        # the SHA-256 is that of: refimpl train lm --steps 20
"""

import argparse
import hashlib
import math
from dataclasses import dataclass, field

import numpy as np
from mpi4py import MPI

from kernels.rows.definition import merge_rows
from models.recipe import build, recipe_of
from models.registry import MODELS
from refimpl.plain.clipping import Optimizer, exact_sum, squares
from refimpl.plain.dense_server import DenseServer
from refimpl.plain.messages import Messages
from refimpl.plain.replicas import GatheredRows, Replica
from refimpl.plain.server import Server
from refimpl.plain.tree import form_nodes
from refimpl.plain.worker import Worker

ARCHITECTURES = {"hybrid": (Replica, Server), "ps": (DenseServer, Server), "allreduce": (Replica, GatheredRows)}
"""Architecture -> (the way of dense variables, the way of sparse ones)."""


@dataclass(frozen=True)
class Options:
    """What the numbers depend on, beside model and data; as the options of ``refimpl train`` of these names."""

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
    """A training on all ranks of ``comm``, which are no more than the microbatches."""

    def __init__(self, model, data, options, comm, architecture="hybrid"):
        self.variables, self.microbatches, self.steps_done = model.variables, data.microbatches, 0
        self.messages, (dense, sparse) = Messages(comm), ARCHITECTURES[architecture]
        self.ways = {v.name: (sparse if v.sparse else dense)(self.messages, v, options.seed, data.microbatches)
                     for v in model.variables}
        self.worker = Worker(model, data, options.seed, self.ways, self.messages.rank, self.messages.size)
        self.optimizer = Optimizer(model.variables, {name: way.values for name, way in self.ways.items()}, options)

    def step(self):
        """Do one step; ``loss`` and ``norm`` are then those of the global batch. Collective."""
        losses, gradients = self.worker.compute(self.steps_done)
        sums = {}
        for v in self.variables:
            nodes = form_nodes(self.worker.first, gradients[v.name], merge_rows if v.sparse else np.add)
            sums[v.name] = self.ways[v.name].push(nodes)
        counts = {name: self.messages.rank == 0 or not isinstance(way, Replica) for name, way in self.ways.items()}
        self.loss = exact_sum(self.messages, losses)
        self.norm = math.sqrt(exact_sum(self.messages, squares(self.variables, sums, counts)))
        self.optimizer.update(self.steps_done, sums, self.norm, self.microbatches)
        self.steps_done += 1

    def sha256(self):
        """Return the hash of all parameters, as a training prints it. Collective."""
        digest = hashlib.sha256()
        for name, way in sorted(self.ways.items()):
            whole = way.whole()
            digest.update(f"parameter/{name} {whole.dtype.str} {whole.shape}\n".encode() + whole.tobytes())
        return digest.hexdigest()


def main(comm=MPI.COMM_WORLD):
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("model", choices=MODELS)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--architecture", choices=ARCHITECTURES, default="hybrid")
    asked = parser.parse_args()
    recipe, chosen = recipe_of(asked.model, {"rate_steps": asked.steps})
    options = Options(**chosen)
    model, data, _ = build(recipe, options.seed)
    training = Hybrid(model, data, options, comm, asked.architecture)
    for _ in range(asked.steps):
        training.step()
        if comm.rank == 0:
            print(f"step {training.steps_done}  loss {training.loss:.4f}  norm {training.norm:.4f}", flush=True)
    digest = training.sha256()
    if comm.rank == 0:
        print(f"rank 0 sent, in all: {', '.join(f'{phase} {n:,} B' for phase, n in training.messages.sent.items())}")
        print(f"parameters sha256 {digest}")


if __name__ == "__main__":
    main()
