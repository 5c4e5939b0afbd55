"""The trainer: sets a training up with all ranks, and does one step after the other (docs/design.md, One step)."""

from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Callable

from kernels.random import key_of
from refimpl.gradients import leaves_of
from refimpl.plan.buckets import with_buckets
from refimpl.training.agreement import agree_on, describe_variable
from refimpl.training.alpha import alpha_of
from refimpl.training.consistency import CONSISTENCIES
from refimpl.training.consistency.synchronous import LESS
from refimpl.training.device import memory_for, open_device
from refimpl.training.options import Options
from refimpl.training.parameters import Parameters
from refimpl.training.planning.hot_choice import add_hot_rows
from refimpl.training.planning.partition_trials import within_memory
from refimpl.training.planning.planning import plan_of
from refimpl.training.run.timeline import Timeline
from refimpl.training.step.check import check_needs, check_variables
from refimpl.training.step.overlap_choice import overlap_of
from refimpl.transport import Communicator


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
        self.step, self.timeline = 0, Timeline(trace)
        self.overlap_choice = overlap_of(options.overlap, self.comm, self.device.index is not None)
        self.overlap = self.overlap_choice.on
        self._together("plan", lambda: check_variables(model.variables))
        agree_on(self.comm, self._together("plan", lambda: self._facts() | facts()))
        planned = plan_of(model, data, options, self.comm, network_file)
        plan, self.reason = add_hot_rows(*planned, model, data, options, self.comm, network_file)
        self.plan = self._together("plan", lambda: self._finished(plan))
        self.parameters = self._together("plan", lambda: Parameters(
            model.variables, self.plan, self.comm, options.seed, options.optimizer, self.xp, options.shared_memory))
        self.parameters.open()  # not before: a rank that could not make its own would leave the others waiting
        self.consistency = CONSISTENCIES[self.plan.consistency](model, options, self.parameters, self.device,
                                                                self.timeline, self.overlap)
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
        """Do one step; return its metrics, the same on every rank but for seconds and bytes. Collective."""
        self.timeline.start_step(self.step)
        self.comm.ledger.clear()
        batches, needs, wanted = self._together("data", self._read_batches)
        self.alpha = alpha_of(self.model.variables, needs)
        try:
            with memory_for("the exchange and update of a step", LESS):
                record = self.consistency.step(self.step, batches, needs, wanted, self._look_ahead)
        except Exception as problem:
            self.comm.stop(problem)
        self.step += 1
        return {"step": self.step, **record, "examples": self.data.examples(self.step - 1),
                "seconds": dict(self.timeline.seconds)}

    def _together(self, phase, work):
        """Do local work; if it fails on any rank, fail on all. Collective."""
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
        """Return microbatch -> its batch, and -> the rows it needs (None for one without examples); what to pull."""
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
        return batches, needs, self.parameters.wanted(needs)

    def _look_ahead(self):
        """Read the next step's batches while the device computes; what goes wrong with them is met in that step."""
        step, self.ahead = self.step + 1, {}
        if step < self.options.steps:
            with suppress(Exception):
                self.ahead[step] = self._read(step, {v: {} for v in self.microbatches})
