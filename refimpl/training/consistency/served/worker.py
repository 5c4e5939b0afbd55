"""Equals plain/without_barriers/async_worker.py: a worker pulls from all owners, computes, and pushes to all owners."""

import math
from operator import iadd
from typing import Any

import numpy as np

from kernels import RowGradient, merge_rows
from kernels.arrays import read_only
from refimpl.gradients import Node, TreeSum, leaves_of
from refimpl.plan.plan import Plan
from refimpl.training.checked.data import CheckedData
from refimpl.training.checked.model import CheckedModel
from refimpl.training.device import LESS, memory_for
from refimpl.training.step.arriving import Fetched, alpha_of, wanted_rows
from refimpl.training.step.scalars import check_losses


class AsyncWorker:
    """Worker ``number`` of a training. Local.

    model, data, options: see ``Trainer``.  plan: has the owners of each variable.  clock: its current step, from 0.
    partitionings: of the sparse variables on servers.  dense: owner -> the dense variables that it keeps.
    alpha: name -> fraction of the rows that it needed in this step.  loss: of its part of this step's batch.
    """

    def __init__(self, model, data, options, plan: Plan, number: int):
        self.model, self.data, self.options = CheckedModel(model), CheckedData(data), options
        self.plan, self.number = plan, number
        self.microbatches = leaves_of(number, plan.ranks, data.microbatches)
        self.sparse = [v for v in model.variables if v.sparse]
        self.dense = {owner: [v for v in model.variables if not v.sparse and plan.strategies[v.name].owners == (owner,)]
                      for owner in range(plan.ranks)}
        self.partitionings = {v.name: plan.partitioning(v) for v in plan.partitioned(self.sparse)}
        self.carried: dict[int, dict] = {v: {} for v in self.microbatches}
        self.clock = -1
        self.answers: dict[int, dict] = {}
        self.gradients: dict[str, Any] = {}
        self.alpha: dict[str, float] = {}
        self.loss = math.nan

    def begin(self):
        """Begin the next step: read its microbatches, and the row numbers that they need."""
        self.clock, self.answers = self.clock + 1, {}
        if self.data.starts_epoch(self.clock):
            self.carried = {v: {} for v in self.microbatches}
        self.batches, examples = self.data.read(self.clock, self.options.seed, self.carried)
        self.needs = self.model.needs(self.batches)
        self.examples = examples * len(self.microbatches) // self.data.microbatches
        there = {v: needs for v, needs in self.needs.items() if needs is not None}
        self.places = {v: index for index, v in enumerate(there)}
        self.wanted = wanted_rows(list(there.values()), [v.name for v in self.sparse], 1)
        self.alpha = alpha_of(self.model.variables, self.needs, self.wanted)
        self.routes = {name: parts.route(self.wanted[name].ids) for name, parts in self.partitionings.items()}

    def asks(self, owner: int) -> dict:
        """Return name -> rows of the owner's shard that this step needs."""
        return {name: route.of(owner) for name, route in self.routes.items()}

    def take(self, owner: int, values: dict):
        """Take an owner's answer: name -> the pulled rows, or a dense variable's value."""
        self.answers[owner] = values

    @property
    def complete(self) -> bool:
        """Whether all owners have answered."""
        return len(self.answers) == self.plan.ranks

    def compute(self):
        """Compute the gradients of this step from the pulled values. Raises ValueError for invalid gradients."""
        (dense, tables), rows, losses = self._values(), {}, []
        for name, table in tables.items():
            rows[name] = Fetched(self.wanted[name])
            rows[name].put(0, table)
        self.model.forget()
        trees = {v.name: TreeSum(merge_rows if v.sparse else iadd) for v in self.model.variables}
        for place, (v, batch) in enumerate(self.batches.items()):
            gradients = None
            if batch is not None:
                mine = {name: read_only(fetched.take(self.places[v])) for name, fetched in rows.items()}
                with memory_for(f"microbatch {v}", LESS):
                    loss, gradients = self.model.loss_and_gradients(dense, mine, batch)
                losses.append((v, loss))
            for variable in self.model.variables:
                trees[variable.name].push(Node(0, place), _kept(variable, gradients))
        self.model.end_step()
        check_losses(losses)
        self.loss = math.fsum(float(loss) for _, loss in losses)
        self.gradients = {name: tree.total() for name, tree in trees.items()}
        for name, parts in self.partitionings.items():
            route = parts.route(self.gradients[name].ids)
            self.gradients[name] = route, route.sort(self.gradients[name].rows)

    def push(self, owner: int) -> dict:
        """Return the gradients for an owner: name -> RowGradient of rows of its shard, or a dense gradient."""
        parts = {}
        for name in self.partitionings:
            route, rows = self.gradients[name]
            parts[name] = RowGradient(route.of(owner), rows[route.bounds[owner]:route.bounds[owner + 1]])
        return parts | {v.name: self.gradients[v.name] for v in self.dense[owner]}

    def metrics(self, times: float, at: float) -> dict:
        """Return the metrics of this step. times: (all microbatches) / (the worker's), which scales the loss.

        at: seconds from the beginning of the training to the end of this step.
        """
        return {"step": self.clock + 1, "worker": self.number, "loss": self.loss * times, "examples": self.examples,
                "at": at, "alpha": self.alpha}

    def _values(self):
        """Return (name -> dense value, name -> the rows ``wanted``) from the answers."""
        rows, dense = {}, {v.name: read_only(self.answers[owner][v.name])
                           for owner, kept in self.dense.items() for v in kept}
        for variable in self.sparse:
            route = self.routes[variable.name]
            table = np.empty((len(route.numbers), variable.shape[1]), variable.dtype)
            for owner, values in self.answers.items():
                table[route.bounds[owner]:route.bounds[owner + 1]] = values[variable.name]
            rows[variable.name] = route.unsort(table)
        return dense, rows


def _kept(variable, gradients):
    """Return a microbatch's gradient of a variable in memory of its own; None if it has no examples."""
    if gradients is None:
        return (RowGradient(np.empty(0, np.int64), np.empty((0, variable.shape[1]), variable.dtype))
                if variable.sparse else np.zeros(variable.shape, variable.dtype))
    gradient = gradients[variable.name]
    return gradient if variable.sparse else np.array(gradient)
