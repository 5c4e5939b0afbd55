"""The trainer: sets a training up with all ranks, and does one step after the other (docs/design.md, One step)."""

from contextlib import suppress
from pathlib import Path
from typing import Callable

from refimpl.gradients import leaves_of
from refimpl.plan import Plan
from refimpl.plan.buckets import with_buckets
from refimpl.plan.plan import SYNCHRONOUS
from refimpl.training.agreement import agree_on, describe_variable
from refimpl.training.alpha import alpha_of
from refimpl.training.consistency.check import check_consistency
from refimpl.training.consistency.synchronous import LESS, Synchronous
from refimpl.training.device import Device, memory_for, open_device
from refimpl.training.initial import initial_facts
from refimpl.training.options import Options
from refimpl.training.parameters import Parameters
from refimpl.training.planning.hot_choice import add_hot_rows
from refimpl.training.planning.partition_trials import within_memory
from refimpl.training.planning.planning import plan_of
from refimpl.training.run.timeline import Timeline
from refimpl.training.step.check import check_variables
from refimpl.training.step.overlap_choice import OverlapChoice, overlap_of
from refimpl.training.step.reading import read_microbatches
from refimpl.transport import Communicator


class Trainer:
    """Trains a model on data over all ranks of a communicator, which ``open`` it and call it alike. Local to make.

    model: see ``models.Model``.  data: see ``models.data.Data``.  step: how many steps are done.
    device: where this rank computes.  reason: why the plan is as it is, or None.  overlap_choice: whether, and why.
    alpha: name -> part of the rows that this rank touched in a step.
    Every error that one rank meets becomes a CollectiveError with one message on all of them.
    """

    def __init__(self, model, data, options: Options, device: Device, parameters: Parameters, timeline: Timeline,
                 overlap_choice: OverlapChoice, reason: str | None = None):
        self.model, self.data, self.options, self.device, self.xp = model, data, options, device, device.xp
        self.parameters, self.comm, self.timeline, self.step = parameters, parameters.comm, timeline, 0
        self.overlap_choice, self.overlap, self.reason = overlap_choice, overlap_choice.on, reason
        self.consistency = Synchronous(model, options, parameters, device, timeline, self.overlap)
        self.microbatches = leaves_of(self.comm.rank, self.comm.size, data.microbatches)
        self.carried: dict[int, dict] = {v: {} for v in self.microbatches}
        self.ahead: dict[int, tuple] = {}  # step -> what was read for it while the device computed the one before
        self.first = True  # nothing of this session is done: its first step looks at what takes time to see
        self.in_flight: Callable[[], dict] = dict  # what else a checkpoint holds of this rank, name -> array
        self.found_in_flight: dict = {}  # and what one held, of all ranks
        self.failure: BaseException | None = None  # of rank 0's bookkeeping, raised on all ranks at the next step

    @classmethod
    def open(cls, model, data, options: Options, comm=None, *, facts: Callable[[], dict] = dict, trace=False,
             network_file: Path | None = None) -> "Trainer":
        """Return the trainer of a model on data. Collective over ``comm``, None: all ranks. Raises CollectiveError.

        facts: returns what else all ranks must have alike, name -> JSON value.
        network_file: where the calibrated network is kept for what is chosen automatically, None: nowhere.
        """
        comm, timeline, variables = Communicator.of(comm), Timeline(trace), model.variables
        with timeline.phase("plan"):
            device = open_device(options.device, comm)
            if device.index is not None and comm.device_transport is None:
                comm.add_device(device.index, options.transport)
            wanted = options.overlap if options.consistency == SYNCHRONOUS else False
            overlap = overlap_of(wanted, comm, device.index is not None)
            agree_on(comm, comm.together(lambda: _facts(variables, data, options, device, overlap) | facts()))
            agree_on(comm, comm.together(lambda: initial_facts(variables, options.seed)))
            planned = plan_of(model, data, options, comm, network_file)
            planned, reason = add_hot_rows(*planned, model, data, options, comm, network_file)
            comm.together(lambda: check_consistency(options, planned, data.microbatches, device.kind), (ValueError,))
            plan = comm.together(lambda: within_memory(with_buckets(planned, variables) if overlap.on else planned,
                                                       variables, options))
            parameters = Parameters.open(variables, plan, comm, options.seed, options.optimizer, device.xp,
                                         options.shared_memory)
        return comm.together(lambda: cls(model, data, options, device, parameters, timeline, overlap, reason),
                             (ValueError,))

    @property
    def plan(self) -> Plan:
        """The plan that the parameters follow; a partition search changes it. Local."""
        return self.parameters.plan

    def train_step(self) -> dict:
        """Do one step; return its metrics, the same on every rank but for seconds and bytes. Collective."""
        self.timeline.start_step(self.step)
        self.comm.ledger.clear()
        batches, needs, wanted, examples, starts = self._together(self._read_batches)
        self.alpha = alpha_of(self.model.variables, needs)
        try:
            with memory_for("the exchange and update of a step", LESS):
                record = self.consistency.step(self.step, batches, needs, wanted, examples, starts,
                                               self._look_ahead)
        except BaseException as problem:
            self.comm.stop(problem)
        self.step, self.first = self.step + 1, False
        return {"step": self.step, **record, "examples": examples, "seconds": dict(self.timeline.seconds)}

    def _together(self, work):
        """Read data; if it fails on any rank, fail on all. Collective."""
        result, error = None, None
        with self.timeline.phase("data"):
            try:
                result = work()
            except BaseException as problem:  # a model may also call sys.exit
                error = problem
        with self.timeline.phase("wait"):
            self.comm.agree(error)
        return result

    def _read_batches(self):
        """Return microbatch -> its batch, and -> the rows it needs (None for one without examples); what to pull; how
        many examples the global batch has; whether an epoch starts."""
        if self.failure is not None:
            raise self.failure
        if starts := bool(self.data.starts_epoch(self.step)):
            self.carried = {v: {} for v in self.microbatches}
        batches, needs, wanted, examples = (self.ahead.pop(self.step, None)
                                            or self._read(self.step, self.carried, self.first))
        for v, batch in batches.items():
            if batch is not None:
                batch.state = self.carried[v]
        return batches, needs, wanted, examples, starts

    def _read(self, step, carried, first=False):
        batches, needs, examples = read_microbatches(self.model, self.data, self.options.seed, step, carried, first)
        return batches, needs, self.parameters.wanted(needs), examples

    def _look_ahead(self):
        """Read the next step's batches while the device computes; what goes wrong with them is met in that step."""
        step, self.ahead = self.step + 1, {}
        if step < self.options.steps:
            with suppress(Exception):
                self.ahead[step] = self._read(step, {v: {} for v in self.microbatches})


def _facts(variables, data, options, device, overlap) -> dict:
    """What all ranks must say alike: else they would wait for each other for ever. ValueError for bad variables."""
    check_variables(variables)
    return {**options.to_json(), "device": device.to_json(), "overlap": overlap.on, "microbatches": data.microbatches,
            "variables": [v.name for v in variables],
            **{f"variable {v.name}": describe_variable(v) for v in variables}, "data": data.fingerprint}
