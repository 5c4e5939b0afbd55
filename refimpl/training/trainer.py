"""The trainer: one step of hybrid data-parallel training, as the data sees it (DESIGN, One step)."""

from dataclasses import replace
from pathlib import Path
from typing import Callable

import numpy as np

from kernels import unique_ids
from kernels.random import key_of
from kernels.update import update_dense, update_rows
from models.variable import STATISTIC_RATE
from refimpl.collectives.wire import Wire
from refimpl.gradients import ExactSum, leaves_of
from refimpl.plan import make_plan
from refimpl.training.agreement import agree_on, describe_variable
from refimpl.training.allreduce_choice import choose_allreduce
from refimpl.training.check import check_gradients, check_needs
from refimpl.training.exchange import Exchange
from refimpl.training.norm import clip_scale, norm_of, squares
from refimpl.training.options import Options
from refimpl.training.partition_trials import within_memory
from refimpl.training.rates import rate_of
from refimpl.training.timeline import Timeline


class Trainer:
    """Trains a model on data over all ranks of ``comm``. Collective: every rank makes it and calls it alike.

    model: see ``models.Model``.  data: see ``refimpl.training.data.Data``.  step: how many steps are done.
    facts: returns what else all ranks must have alike, name -> JSON value.
    network_file: where the calibrated network is kept for ``--allreduce auto``, None: nowhere.
    Every error that one rank meets becomes a CollectiveError with one message on all of them.
    """

    def __init__(self, model, data, options: Options, comm=None, *, facts: Callable[[], dict] = dict, xp=np, trace=False,
                 network_file: Path | None = None):
        self.model, self.data, self.options, self.xp = model, data, options, xp
        self.wire = comm if isinstance(comm, Wire) else Wire(comm)
        self.step = 0
        self.timeline = Timeline(trace)
        agree_on(self.wire, self._together("plan", lambda: self._facts() | facts()))
        self.choice = choose_allreduce(model.variables, options, self.wire, data.microbatches, network_file)
        self.plan = self._together("plan", lambda: within_memory(self._make_plan(), model.variables, options))
        self.exchange = self._together("plan", lambda: Exchange(model.variables, self.plan, self.wire, options.seed,
                                                                options.optimizer, xp, options.shared_memory))
        self.exchange.open()  # not before: a rank that could not make its own would leave the others waiting
        self.microbatches = leaves_of(self.wire.rank, self.wire.size, data.microbatches)
        self.carried: dict[int, dict] = {v: {} for v in self.microbatches}
        self.failure: Exception | None = None  # of rank 0's bookkeeping, raised on all ranks at the next step

    def _make_plan(self):
        options = self.options
        allreduce = self.choice.algorithm if self.choice else options.allreduce
        return make_plan(self.model.variables, options.architecture, self.wire.size, self.data.microbatches,
                         allreduce=allreduce, partitions=options.partitions, scheme=options.scheme,
                         sparse_as_dense=options.sparse_as_dense, machines=self.wire.machines)

    def _facts(self) -> dict:
        """What all ranks must say alike: else they would exchange unlike things, or wait for each other for ever."""
        variables = self.model.variables
        return {**self.options.to_json(), "microbatches": self.data.microbatches, "variables": [v.name for v in variables],
                **{f"variable {v.name}": describe_variable(v) for v in variables}, "data": self.data.fingerprint}

    def train_step(self) -> dict:
        """Do one step; return its metrics, the same on every rank but for seconds and bytes."""
        self.timeline.start_step(self.step)
        self.wire.ledger.clear()
        batches, needs = self._together("data", self._read_batches)
        with self.timeline.phase("pull"):
            self.exchange.pull({name: _union(ids) for name, ids in needs.items()})
        losses = self._together("compute", lambda: self._compute(batches))
        summed = self.exchange.push(self.timeline)
        with self.timeline.phase("norm"):
            loss, norm = self._loss_and_norm(losses, summed)
        with self.timeline.phase("update"):
            rate = self._update(summed, clip_scale(norm, self.options.clip_norm))
        self.step += 1
        return {"step": self.step, "loss": loss, "gradient_norm": norm, "learning_rate": rate,
                "examples": self.data.examples(self.step - 1), "seconds": dict(self.timeline.seconds)}

    def _together(self, phase, work):
        """Do local work; if it fails on any rank, fail on all."""
        result, error = None, None
        with self.timeline.phase(phase):
            try:
                result = work()
            except Exception as problem:
                error = problem
        with self.timeline.phase("wait"):
            self.wire.agree(error)
        return result

    def _read_batches(self):
        """Return (microbatch -> (batch, its needs)), and name -> list of row numbers."""
        if self.failure is not None:
            raise self.failure
        batches, needs = {}, {v.name: [] for v in self.model.variables if v.sparse}
        if self.data.starts_epoch(self.step):
            self.carried = {v: {} for v in self.microbatches}
        for v in self.microbatches:
            batch = self.data.microbatch(self.step, v)
            if batch is None:
                batches[v] = None
                continue
            key = key_of(self.options.seed, "microbatch", self.step, v)
            batch = replace(batch, key=key, state=self.carried[v])
            wanted = self.model.rows_needed(batch)
            check_needs(self.model.variables, wanted)
            for name, ids in wanted.items():
                needs[name].append(ids)
            batches[v] = (batch, wanted)
        return batches, needs

    def _compute(self, batches):
        """Run the model on this rank's microbatches, adding up gradients; return their losses."""
        dense, losses = self.exchange.dense(), []
        for v, item in batches.items():
            if item is None:
                self.exchange.add(v, None)
                continue
            batch, wanted = item
            loss, gradients = self.model.loss_and_gradients(dense, self.exchange.rows(wanted), batch)
            check_gradients(self.model.variables, gradients, v)
            if not np.isfinite(loss):
                raise ValueError(f"the loss of microbatch {v} is {loss}; lower the learning rate or clip the norm")
            self.exchange.add(v, gradients)
            losses.append(float(loss))
        return losses

    def _loss_and_norm(self, losses, summed):
        """Return the global loss and gradient norm: exact sums over all ranks, rounded once, the same everywhere."""
        words, error = [ExactSum().add(losses).digits], None
        try:
            words.append(squares(summed).digits)
        except ValueError as problem:
            words.append(ExactSum().digits)
            error = problem
        total = self.wire.total(np.concatenate([*words, [error is not None]]), "norm")
        if total[-1]:
            self.wire.agree(error)
        loss, sum_of_squares = total[:-1].reshape(2, -1)
        return ExactSum(loss).value(), norm_of(ExactSum(sum_of_squares))

    def _update(self, summed, scale) -> float:
        options = self.options
        rate = rate_of(self.step, base=options.learning_rate, rate=options.rate, warmup=options.warmup,
                       steps=options.rate_steps)
        for piece in summed:
            holding, variable = piece.holding, piece.holding.variable
            if variable.statistic:
                holding.values += np.asarray(STATISTIC_RATE, variable.dtype) * (piece.gradient - holding.values)
                continue
            factor = scale if variable.clipped else 1.0
            if variable.sparse and not options.average_sparse:
                factor *= self.plan.microbatches
            settings = {"step": self.step + 1, "scale": factor,
                        "decay": options.weight_decay if variable.decays else 0.0, **options.optimizer_options}
            if piece.ids is None:
                update_dense(options.optimizer, holding.values, holding.state, piece.gradient, rate, **settings)
            else:
                update_rows(options.optimizer, holding.values, holding.state, piece.ids, piece.gradient, rate, **settings)
        return rate


def _union(id_lists):
    """Return the sorted unique row numbers of all lists: (k,) int64."""
    if len(id_lists) == 1:
        return id_lists[0]
    return unique_ids(np.concatenate([np.empty(0, np.int64), *id_lists]))

