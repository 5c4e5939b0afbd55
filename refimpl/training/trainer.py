"""The trainer: one step of hybrid data-parallel training, as the data sees it (DESIGN, One step)."""

from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Callable

import numpy as np

from kernels.random import key_of
from kernels.update import move_each, update_dense_each, update_rows
from kernels.update.rates import rate_of
from models.variable import STATISTIC_RATE
from refimpl.gradients import ExactSum, leaves_of
from refimpl.plan.buckets import with_buckets
from refimpl.training.agreement import agree_on, describe_variable
from refimpl.training.alpha import alpha_of
from refimpl.training.check import check_needs, check_variables
from refimpl.training.device import memory_for, open_device
from refimpl.training.exchange.exchange import Exchange
from refimpl.training.exchange.overlap_choice import overlap_of
from refimpl.training.norm import clip_scale, norm_of
from refimpl.training.options import Options
from refimpl.training.planning.hot_choice import add_hot_rows
from refimpl.training.planning.partition_trials import within_memory
from refimpl.training.planning.planning import plan_of
from refimpl.training.run.timeline import Timeline
from refimpl.training.scalars import check_losses
from refimpl.transport import Communicator

KNOWN = 1 << 32
"""More than there are ranks: what a rank adds to the count of problems if it knows the reason of its own."""

LESS = "Reduce --microbatch-size, with more --microbatches"


class Trainer:
    """Trains a model on data over all ranks of ``comm``. Collective: every rank makes it and calls it alike.

    model: see ``models.Model``.  data: see ``models.data.Data``.  step: how many steps are done.
    facts: returns what else all ranks must have alike, name -> JSON value.
    network_file: where the calibrated network is kept for what is chosen automatically, None: nowhere.
    device: where this rank computes.  reason: why the plan is as it is, or None.  overlap_choice: whether, and why.
    alpha: name -> part of the rows that this rank touched in a step.
    Every error that one rank meets becomes a CollectiveError with one message on all of them.
    """

    def __init__(self, model, data, options: Options, comm=None, *, facts: Callable[[], dict] = dict, trace=False,
                 network_file: Path | None = None):
        self.model, self.data, self.options = model, data, options
        self.comm = Communicator.of(comm)
        self.device = open_device(options.device, self.comm)
        self.xp = self.device.xp
        if self.device.index is not None and self.comm.device_transport is None:
            self.comm.add_device(self.device.index, options.transport)
        self.step = 0
        self.timeline = Timeline(trace)
        self.overlap_choice = overlap_of(options.overlap, self.comm, self.device.index is not None)
        self.overlap = self.overlap_choice.on
        self._together("plan", lambda: check_variables(model.variables))
        agree_on(self.comm, self._together("plan", lambda: self._facts() | facts()))
        planned = plan_of(model, data, options, self.comm, network_file)
        plan, self.reason = add_hot_rows(*planned, model, data, options, self.comm, network_file)
        self.plan = self._together("plan", lambda: self._finished(plan))
        self.exchange = self._together("plan", lambda: Exchange(model.variables, self.plan, self.comm, options.seed,
                                                                options.optimizer, self.xp, options.shared_memory))
        self.exchange.open()  # not before: a rank that could not make its own would leave the others waiting
        self.microbatches = leaves_of(self.comm.rank, self.comm.size, data.microbatches)
        self.carried: dict[int, dict] = {v: {} for v in self.microbatches}
        self.ahead: dict[int, tuple] = {}  # step -> what was read for it while the device computed the one before
        self.failure: Exception | None = None  # of rank 0's bookkeeping, raised on all ranks at the next step

    def _finished(self, plan):
        plan = with_buckets(plan, self.model.variables) if self.overlap else plan
        return within_memory(plan, self.model.variables, self.options)

    def _facts(self) -> dict:
        """What all ranks must say alike: else they would exchange unlike things, or wait for each other for ever."""
        variables = self.model.variables
        return {**self.options.to_json(), "device": self.device.to_json(), "overlap": self.overlap,
                "microbatches": self.data.microbatches,
                "variables": [v.name for v in variables],
                **{f"variable {v.name}": describe_variable(v) for v in variables}, "data": self.data.fingerprint}

    def train_step(self) -> dict:
        """Do one step; return its metrics, the same on every rank but for seconds and bytes."""
        self.timeline.start_step(self.step)
        self.comm.ledger.clear()
        batches, needs, wanted = self._together("data", self._read_batches)
        self.alpha = alpha_of(self.model.variables, needs)
        try:
            with memory_for("the exchange and update of a step", LESS):
                record = self._exchange_and_update(batches, needs, wanted)
        except Exception as problem:
            self.comm.stop(problem)
        self.step += 1
        return {"step": self.step, **record, "examples": self.data.examples(self.step - 1),
                "seconds": dict(self.timeline.seconds)}

    def _exchange_and_update(self, batches, needs, wanted) -> dict:
        step = self.exchange.begin(needs, wanted, self.timeline, self.overlap)
        try:
            losses, error = self._compute(step, batches)
            summed, loss, norm = self._sum_up(step, losses, error)
            with self.timeline.phase("update"):
                rate = self._update(summed, clip_scale(norm, self.options.clip_norm))
        finally:
            step.end()
        return {"loss": loss, "gradient_norm": norm, "learning_rate": rate}

    def _together(self, phase, work):
        """Do local work; if it fails on any rank, fail on all."""
        result, error = None, None
        with self.timeline.phase(phase):
            try:
                result = work()
            except Exception as problem:
                error = problem
        with self.timeline.phase("wait"):
            self.comm.agree(error)
        return result

    def _read_batches(self):
        """Return microbatch -> its batch, and -> the rows it needs (None for one without examples); what to fetch."""
        if self.failure is not None:
            raise self.failure
        if self.data.starts_epoch(self.step):
            self.carried = {v: {} for v in self.microbatches}
        batches, needs, wanted = self.ahead.pop(self.step, None) or self._read(self.step, self.carried)
        for v, batch in batches.items():
            if batch is not None:
                batch.state = self.carried[v]
        return batches, needs, wanted

    def _read(self, step, carried):
        batches, needs = {}, {}
        for v in self.microbatches:
            batch, rows = self.data.microbatch(step, v), None
            if batch is not None:
                key = key_of(self.options.seed, "microbatch", step, v)
                batch = replace(batch, key=key, state=carried[v])
                rows = self.model.rows_needed(batch)
                check_needs(self.model.variables, rows)
            batches[v], needs[v] = batch, rows
        return batches, needs, self.exchange.wanted(needs)

    def _look_ahead(self):
        """Read the next step's batches while the device computes; what goes wrong with them is met in that step."""
        step, self.ahead = self.step + 1, {}
        if step < self.options.steps:
            with suppress(Exception):
                self.ahead[step] = self._read(step, {v: {} for v in self.microbatches})

    def _compute(self, step, batches):
        """Run the model on this rank's microbatches, adding up gradients; return their losses, and what went wrong."""
        losses = []
        with self.timeline.phase("compute"):
            try:
                for v, batch in batches.items():
                    gradients = None
                    if batch is not None:
                        batch.ready = partial(step.ready, v)
                        with memory_for(f"microbatch {v}", LESS):
                            loss, gradients = self.model.loss_and_gradients(step.dense, step.rows(v), batch)
                        losses.append((v, loss))
                    step.add(v, gradients)
                check_losses(losses)
                return losses, None
            except Exception as problem:
                return [], problem

    def _sum_up(self, step, losses, error):
        """Return this rank's part of the summed gradients, the global loss and norm; the communicator is free again."""
        summed = []
        for pieces in step.sums(error):
            summed += pieces
            with self.timeline.phase("norm"):
                step.scalars.add(pieces)
        if self.device.index is not None:
            with self.timeline.phase("data"):
                self._look_ahead()
        with self.timeline.phase("norm" if self.device.index is None else "waiting for device"):
            self.comm.settle()
            found = step.scalars.read(losses)
        with self.timeline.phase("norm"):
            return summed, *self._loss_and_norm(found, error or found.error)

    def _loss_and_norm(self, found, error):
        """Return the global loss and gradient norm: exact sums over all ranks, rounded once, the same everywhere.

        error: what this rank met and has not told yet; it ends all ranks here, as does a sum that overflows. But of a
        sum only where no rank knows what overflowed it.
        """
        losses = ExactSum() if error else ExactSum().add(found.losses)
        problems = KNOWN * (error is not None) + (found.overflow is not None)
        total = self.comm.total(np.concatenate([losses.digits, found.squares.digits, [problems]]), "norm")
        if total[-1]:
            self.comm.agree(error if total[-1] >= KNOWN else found.overflow)
        loss, sum_of_squares = total[:-1].reshape(2, -1)
        return ExactSum(loss).value(), norm_of(ExactSum(sum_of_squares))

    def _update(self, summed, scale) -> float:
        options = self.options
        rate = rate_of(self.step, base=options.learning_rate, rate=options.rate, warmup=options.warmup,
                       steps=options.rate_steps)
        dense, statistics = [], []
        for piece in summed:
            holding, variable, gradient = piece.holding, piece.holding.variable, piece.gradient
            if variable.statistic:
                statistics.append((holding.values, gradient))
                continue
            factor = scale if variable.clipped else 1.0
            if variable.sparse and not options.average_sparse:
                factor *= self.plan.microbatches
            decay = options.weight_decay if variable.decays else 0.0
            if piece.ids is None:
                dense.append((holding.values, holding.state, gradient, factor, decay))
            else:
                update_rows(options.optimizer, holding.values, holding.state, piece.ids, gradient, rate,
                            step=self.step + 1, scale=factor, decay=decay, **options.optimizer_options)
        update_dense_each(options.optimizer, dense, rate, step=self.step + 1, **options.optimizer_options)
        move_each(statistics, STATISTIC_RATE)
        return rate
