"""Record the golden trainings (``models.golden``): what the product's own trainer computes, sums and updates."""

import json
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from kernels import RowGradient
from kernels.random import key_of
from kernels.update import OPTIMIZERS
from models.candidates import log_expected_count
from models.golden import SEED, STEPS, Golden
from models.registry import MODELS, entry_of
from models.variable import STATISTIC_RATE
from refimpl.conformance.case import Rows
from refimpl.conformance.semantics import Semantics
from refimpl.conformance.traces.format import PRECISIONS, Trace, edition_of, write_trace
from refimpl.conformance.traces.golden import FOLDER, golden, golden_path
from refimpl.plain.adding.rows import aggregate_rows
from refimpl.training.options import Options
from refimpl.training.trainer import Trainer

SEMANTICS = Semantics(name="refimpl", dense="sum", sparse="sum", order="tree")


class TraceRecorder:
    """A model that calls another model, and records its arguments and results."""

    def __init__(self, model, trace: Trace, microbatches: int):
        self.model, self.variables, self.trace = model, model.variables, trace
        self.rows_needed = model.rows_needed
        self.places = {key_of(SEED, "microbatch", s, v): (s, v) for s in range(STEPS) for v in range(microbatches)}

    def loss_and_gradients(self, dense, rows, batch):
        step, leaf = self.places[batch.key]
        for name, array in batch.state.items():
            self.trace.add("carried", step, name, array, leaf)
        loss, gradients = self.model.loss_and_gradients(dense, rows, batch)
        for name, g in gradients.items():
            self.trace.add("local", step, name, Rows(g.ids, g.rows) if isinstance(g, RowGradient) else g, leaf)
        return loss, gradients


class RecordingTrainer(Trainer):
    """Keeps the aggregated gradients of each step that this rank holds: (step, name) -> [(ids, array)]."""

    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        self.aggregated: dict[tuple[int, str], list] = {}
        self._let_update, self.consistency.update = self.consistency.update, self._update

    def _update(self, number, reduced, scale):
        for piece in reduced:
            ids = None if piece.ids is None else global_ids(self.plan, self.comm.rank, piece)
            self.aggregated.setdefault((number, piece.shard.variable.name), []).append((ids, np.array(piece.gradient)))
        return self._let_update(number, reduced, scale)


def global_ids(plan, rank, reduced) -> np.ndarray:
    """Return the numbers in the whole variable of the rows of a rank's table that a reduced gradient has. Local."""
    variable, ids = reduced.shard.variable, np.array(reduced.ids)
    if not plan.strategies[variable.name].partitioned:
        return ids
    mine = plan.partitioning(variable).ranges_of(rank)
    first = np.cumsum([0, *map(len, mine)])  # tables may be too large for an array of all numbers
    which = np.searchsorted(first, ids, side="right") - 1
    return np.array([mine[w][i - first[w]] for w, i in zip(which, ids)], np.int64)


@dataclass(frozen=True)
class Given:
    """An ``initial`` of ``models.Variable``, the same on every rank. values: of all elements, one after the other."""

    values: tuple[float, ...]

    @classmethod
    def of(cls, array) -> "Given":
        """Return an array's values. Local."""
        return cls(tuple(array.ravel().tolist()))

    def elements(self, key, start, count):
        """Return ``count`` values from element ``start`` on; no key changes them. Local."""
        return np.array(self.values[start:start + count])


def started_from(variables, trace: Trace) -> list:
    """Return the variables with a trace's start as initial values."""
    return [replace(v, initial=Given.of(trace.get("start", None, v.name))) for v in variables]


def regenerate(names, folder=FOLDER) -> list[Path]:
    """Record the named trainings in both precisions and write them to a folder; return the files. Local, one rank.

    Raises ValueError for a name that does not exist.
    """
    paths = {(name, precision): golden_path(name, precision) for name in names for precision in PRECISIONS}
    written: list[Path] = []
    for (name, precision), path in paths.items():
        written += write_trace(record(name, entry_of(name).golden, precision), Path(folder) / path.name)
    golden.cache_clear()
    return written


def options_of(training: Golden) -> Options:
    """Return the trainer's options. Local."""
    return Options(steps=STEPS, seed=SEED, **training.options)


def record(name: str, training: Golden, precision: str) -> Trace:
    """Return the trace of a training on one rank. float64 starts from float32's values. Local."""
    model, options, (data, samples) = training.make_model(precision), options_of(training), training.make_data()
    about = {"model": name, "code": MODELS[name].replace(".", "/"), **training.about}
    head = _head(name, precision, options, data.microbatches, about, model.variables)
    trace = Trace(json.loads(json.dumps(head)))  # as it will be read: lists for tuples
    _record_start(trace, training.make_model("float32").variables, options)
    model.variables = started_from(model.variables, trace)
    _record_inputs(trace, data, samples, model)
    recorder = TraceRecorder(model, trace, data.microbatches)
    record_steps(trace, RecordingTrainer.open(recorder, data, options), STEPS)
    trace.head["edition"] = edition_of(trace)
    return trace


def record_steps(trace: Trace, trainer: RecordingTrainer, steps: int):
    """Train, and put what comes after the local gradients into a trace. Collective.

    Of aggregated gradients each rank keeps what it holds: the rows that it owns.
    """
    for step in range(steps):
        metrics = trainer.train_step()
        for what in ("loss", "gradient_norm"):
            trace.add("metrics", step, what, np.float64(metrics[what]))
        for variable in trainer.model.variables:
            name = variable.name
            trace.add("aggregated", step, name, _joined(variable, trainer.aggregated.get((step, name), [])))
            trace.add("parameters", step, name, trainer.parameters.collect(name, everyone=True))
            for slot in trainer.parameters.slots[name]:
                trace.add("state", step, name, trainer.parameters.collect(name, slot, everyone=True), part=slot)


def _joined(variable, pieces):
    """Return the pieces of an aggregated gradient as one."""
    if not variable.sparse:
        return pieces[0][1] if pieces else np.zeros(variable.shape, variable.dtype)
    empty = np.empty(0, np.int64), np.empty((0, variable.shape[1]), variable.dtype)
    ids, rows = (np.concatenate(parts) for parts in zip(empty, *pieces))
    return aggregate_rows(Rows, ids, rows)


def _head(name, precision, options, microbatches, about, variables) -> dict:
    optimizer = OPTIMIZERS[options.optimizer]
    initial = {"initial": next(iter(optimizer.state.values()))} if options.optimizer == "adagrad" else {}
    return {
        "trace": name, "precision": precision, "joined_at": "model", "semantics": SEMANTICS.to_json(),
        "command": f"python -m refimpl conformance regenerate {name}",
        "training": {"seed": options.seed, "steps": options.steps, "microbatches": microbatches,
                     "optimizer": options.optimizer, "rate": options.learning_rate, "clip": options.clip_norm,
                     "options": {**optimizer.options, **options.optimizer_options, **initial},
                     "statistic_rate": STATISTIC_RATE, "model": about},
        "variables": [{"name": v.name, "shape": list(v.shape), "sparse": v.sparse, "statistic": v.statistic}
                      for v in variables]}


def _record_start(trace, variables, options):
    for variable in variables:
        value = variable.initial_value(options.seed).astype(trace.precision)
        trace.add("start", None, variable.name, value)
        for slot, initial in OPTIMIZERS[options.optimizer].state.items() if not variable.statistic else ():
            trace.add("start", None, variable.name, np.full_like(value, initial), part=slot)


def _record_inputs(trace, data, samples, model):
    for step in range(STEPS):
        for leaf in range(data.microbatches):
            batch = data.microbatch(step, leaf)
            if batch is None:
                continue
            arrays = {"samples": samples.microbatch(step, leaf).inputs, "inputs": batch.inputs,
                      "targets": batch.targets, "normaliser": np.float64(batch.normaliser),
                      "starts_epoch": np.int64(data.starts_epoch(step))}
            if batch.weights is not None:
                arrays["weights"] = batch.weights
            if hasattr(model, "candidates"):
                drawn = model.candidates(replace(batch, key=key_of(SEED, "microbatch", step, leaf)))
                arrays |= {"candidates": drawn.ids, **{
                    f"{what}_log_counts": log_expected_count(ids, drawn.tries, model.vocabulary)
                    for what, ids in (("candidate", drawn.ids), ("target", batch.targets))}}
            for what, array in arrays.items():
                trace.add("inputs", step, what, array, leaf)
