"""The trainer: sets up a training on all ranks, and does one step after the other (docs/design.md, One step)."""

from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Callable

import numpy as np

from refimpl.gradients import leaves_of
from refimpl.plan import Plan
from refimpl.plan.buckets import with_buckets_for
from refimpl.plan.codecs import check_codecs, codecs_to_choose, encoded
from refimpl.plan.plan import SYNCHRONOUS
from refimpl.training.checked.data import CheckedData
from refimpl.training.checked.model import CheckedModel
from refimpl.training.checked.targets import Targets
from refimpl.training.checked.values import check_variables
from refimpl.training.consistency.check import check_consistency
from refimpl.training.consistency.synchronous import Reading, Synchronous
from refimpl.training.device import LESS, Device, memory_for, open_device
from refimpl.training.agreement import agree_on, describe_variable, initial_facts
from refimpl.training.options import Options
from refimpl.training.parameters import Parameters
from refimpl.training.planning.partition_trials import within_memory
from refimpl.training.planning.planning import Planning
from refimpl.training.run.manifest import FLIGHT
from refimpl.training.run.timeline import Timeline
from refimpl.training.run.whole import key_of_residual, kinds_of
from refimpl.training.step.arriving import alpha_of
from refimpl.training.step.overlap_choice import OverlapChoice, overlap_of
from refimpl.training.step.precision import with_precision
from refimpl.transport import Communicator


SCALE = "loss scale"


class Trainer:
    """Trains a model on data over all ranks of a communicator. The constructor is local; all ranks make the same calls.

    model: see ``models.Model``.  data: see ``models.data.Data``.  step: the number of steps done.
    device: where this rank computes.  reason: why it has this plan, or None.  overlap_choice: see ``OverlapChoice``.
    mixed: the model, perhaps in mixed precision.  alpha: name -> fraction of the rows that this rank touched in a step.
    An error on one rank becomes a CollectiveError with the same message on all ranks.
    """

    def __init__(self, model, data, options: Options, device: Device, parameters: Parameters, timeline: Timeline,
                 overlap_choice: OverlapChoice, reason: str | None = None):
        self.model, self.data, self.options, self.device, self.xp = model, data, options, device, device.xp
        self.parameters, self.comm, self.timeline, self.step = parameters, parameters.comm, timeline, 0
        self.overlap_choice, self.overlap, self.reason = overlap_choice, overlap_choice.way, reason
        self.mixed = with_precision(model, options, parameters.plan, device.kind)
        self.quiet = dict(over="ignore", invalid="ignore") if options.precision else {}  # sums of what overflowed
        self.checked_model, self.checked_data = CheckedModel(self.mixed), CheckedData(data)
        names = metrics_of(model)
        if names and options.consistency != SYNCHRONOUS:
            raise ValueError("the model reports metrics, which all ranks add up in each step: leave them out with "
                             f"--consistency {options.consistency}")
        self.consistency = Synchronous(self.checked_model, options, parameters, device, timeline, self.overlap, names)
        self.microbatches = leaves_of(self.comm.rank, self.comm.size, data.microbatches)
        self.carried: dict[int, dict] = {v: {} for v in self.microbatches}
        self.ahead: dict[int, Reading] = {}  # step -> what was read for it while the device computed the one before
        self.in_flight: Callable[[], dict] = dict  # what else a checkpoint holds of this rank, name -> array
        self.found_in_flight: dict = {}  # and what one held, of all ranks
        self.failure: BaseException | None = None  # of rank 0's bookkeeping, raised on all ranks at the next step

    @classmethod
    def open(cls, model, data, options: Options, comm=None, *, facts: Callable[[], dict] = dict, trace=False,
             network_file: Path | None = None) -> "Trainer":
        """Return the trainer of a model on data. Collective over ``comm``, None: all ranks. Raises CollectiveError.

        facts: returns further facts that must be the same on all ranks, name -> JSON value.
        network_file: where the calibrated network is stored for automatic choices, or None.
        """
        comm, timeline, variables = Communicator.of(comm), Timeline(trace), model.variables
        with timeline.phase("plan"):
            device = open_device(options.device, comm)
            if device.index is not None and comm.device_transport is None:
                comm.add_device(device.index, options.transport)
            wanted = options.overlap if options.consistency == SYNCHRONOUS else False
            overlap = overlap_of(wanted, comm, device.index is not None)
            agree_on(comm, comm.together(lambda: _facts(variables, data, options, device, overlap)
                                         | {"metrics": metrics_of(model)} | facts()))
            agree_on(comm, comm.together(lambda: initial_facts(variables, options.seed)))
            planned, reason = Planning(model, data, options, comm, network_file, overlap.way == "early").find()
            if codecs_to_choose(options.codec):  # only a checkpoint's codecs give the same numbers
                options = replace(options, codec=encoded(planned))
            comm.together(lambda: check_consistency(options, planned, data.microbatches, device.kind), (ValueError,))
            comm.together(lambda: check_codecs(planned, variables, device.kind, options.optimizer,
                                               options.clip_norm), (ValueError,))
            plan = comm.together(lambda: within_memory(with_buckets_for(overlap.way, planned, variables),
                                                       variables, options))
            parameters = Parameters.open(variables, plan, comm, options.seed, options.optimizer, device.xp,
                                         options.shared_memory)
        return comm.together(lambda: cls(model, data, options, device, parameters, timeline, overlap, reason),
                             (ValueError,))

    def restore(self, step: int, arrays):
        """Continue after ``step`` steps from a checkpoint's state, or one in memory, of any number of ranks. Local.

        arrays: key -> array of all ranks; see ``run.whole``, and ``Parameters.place`` for those of variables.
        """
        for key, (variable, slot) in kinds_of(self.parameters).items():
            self.parameters.place(variable.name, slot, arrays[key])
        self.restore_left_out(arrays)
        self.found_in_flight = {key: arrays[key][...] for key in arrays if key.startswith(f"{FLIGHT}/")}
        for v, state in self.carried.items():
            prefix = f"carry/{v}/"
            state.clear()
            state |= {key.removeprefix(prefix): self.xp.array(arrays[key][...]) for key in arrays
                      if key.startswith(prefix)}
        self.step = step

    def restore_left_out(self, arrays):
        """Take this rank's part of what ``left_out`` names from the state of all ranks, key -> array. Local."""
        for key, array in (self.residuals() | self._sketches()).items():
            array[...] = arrays[key][...]
        if SCALE in self.common():
            self.mixed.loss_scale.scale, self.mixed.loss_scale.good = map(float, arrays[SCALE][...])

    def left_out(self) -> dict:
        """Return key -> (dtype, shape) of all ranks' residuals, and of what ``common`` returns. Local."""
        coded = {v: self.plan.strategies[v.name].coding for v in self.model.variables}
        return {key_of_residual(v.name, m): (v.dtype, codec.shape_kept(v.shape)) for v, codec in coded.items()
                if codec.feedback for m in range(self.data.microbatches)} | {
            key: (array.dtype, array.shape) for key, array in self.common().items()}

    def residuals(self) -> dict:
        """Return key -> array of the residuals of codecs on this rank, for a checkpoint. Local."""
        return {key_of_residual(name, v): left_out for exchange in self.parameters.exchanges
                for (name, v), left_out in exchange.residuals().items()}

    def common(self) -> dict:
        """Return key -> array that is the same on all ranks: codecs' sketches, loss scale and good steps. Local."""
        if self.options.precision is None:
            return self._sketches()
        scale = self.mixed.loss_scale
        return self._sketches() | {SCALE: np.array([scale.scale, scale.good], np.float64)}

    def _sketches(self) -> dict:
        return {f"sketch/{name}": array for exchange in self.parameters.exchanges
                for name, array in exchange.common().items()}

    @property
    def plan(self) -> Plan:
        """The plan that the parameters follow. A partition search changes it. Local."""
        return self.parameters.plan

    def take(self, data):
        """Train on other data from the next step on; V stays the same. Collective. Raises CollectiveError."""
        agree_on(self.comm, self.comm.together(lambda: {"data": data.fingerprint}))
        self.data, self.checked_data, self.ahead = data, CheckedData(data), {}
        self.consistency.targets, self.checked_model.first = Targets(self.comm), True

    def train_step(self, agree=None) -> dict:
        """Do one step; return its metrics, the same on every rank except for seconds and bytes. Collective.

        agree(error): replaces ``Communicator.agree`` after this rank has read its data.
        """
        self.timeline.start_step(self.step)
        self.comm.ledger.clear()
        reading = self._together(self._read, agree or self.comm.agree)
        self.alpha = alpha_of(self.model.variables, reading.needs, reading.wanted)
        try:
            with memory_for("the exchange and update of a step", LESS), np.errstate(**self.quiet):
                record = self.consistency.step(self.step, reading, self._look_ahead)
        except BaseException as problem:
            self.comm.stop(problem)
        self.step += 1
        return {"step": self.step, **record, "examples": reading.examples, "seconds": dict(self.timeline.seconds)}

    def _together(self, work, agree):
        """Call work(), which reads data; if it fails on any rank, all raise the error. Collective."""
        result, error = None, None
        with self.timeline.phase("data"):
            try:
                result = work()
            except BaseException as problem:  # a model may also call sys.exit
                error = problem
        with self.timeline.phase("wait"):
            agree(error)
        return result

    def _read(self) -> Reading:
        """Read this rank's microbatches of the step, each with its state."""
        if self.failure is not None:
            raise self.failure
        starts = bool(self.data.starts_epoch(self.step))
        if starts:
            self.carried = {v: {} for v in self.microbatches}
        reading = self.ahead.pop(self.step, None) or self._read_batches(self.step, self.carried)
        for v, batch in reading.batches.items():
            if batch is not None:
                batch.state = self.carried[v]
        return reading._replace(starts=starts)

    def _read_batches(self, step, carried) -> Reading:
        batches, examples = self.checked_data.read(step, self.options.seed, carried)
        needs = self.checked_model.needs(batches)
        return Reading(batches, needs, self.parameters.wanted(needs), examples, False)

    def _look_ahead(self):
        """Read the next step's batches while the device computes. If this fails, the next step raises the error."""
        step, self.ahead = self.step + 1, {}
        if step < self.options.steps:
            with suppress(Exception):
                self.ahead[step] = self._read_batches(step, {v: {} for v in self.microbatches})


def metrics_of(model) -> list[str]:
    """Return the names of the numbers that a model reports, see ``models.Batch``. Local."""
    return list(getattr(model, "metrics", ()))


def _facts(variables, data, options, device, overlap) -> dict:
    """Return the facts that must be the same on all ranks, or they might wait for each other for ever."""
    check_variables(variables)
    return {**options.to_json(), "device": device.to_json(), "overlap": overlap.way, "microbatches": data.microbatches,
            "variables": [v.name for v in variables],
            **{f"variable {v.name}": describe_variable(v) for v in variables}, "data": data.fingerprint}
