"""Hold another implementation's trace against ours, stage by stage, and find where it begins to differ."""

import json

import numpy as np

from refimpl.conformance.case import numbers_of
from refimpl.conformance.checks import VariableResult, complaint
from refimpl.conformance.compare import Verdict, note
from refimpl.conformance.runner import Outcome
from refimpl.conformance.traces.expect import expected
from refimpl.conformance.traces.explain import explain
from refimpl.conformance.traces.format import Trace, read_trace
from refimpl.conformance.traces.golden import golden
from refimpl.conformance.traces.sources import Sources

ORDER = ("start", "carried", "local", "aggregated", "metrics", "state", "parameters", "training")
"""Verdicts, and the order in which a step makes them. training: parameters against the whole training in float64."""


def check_trace(path) -> Outcome:
    """Read a trace and judge it. Local. Raises ValueError for one that cannot be judged, saying why."""
    return judge_trace(read_trace(path), str(path))


def judge_trace(theirs: Trace, target: str = "trace") -> Outcome:
    """Judge a trace by the golden ones: one verdict a stage, in each of them one finding a variable. Local."""
    truth, single = golden(theirs.name, "float64"), golden(theirs.name, "float32")
    sources = Sources(theirs, truth if theirs.precision == "float64" else single, truth, single)
    refuse(sources)
    with np.errstate(all="ignore"):  # wrong numbers overflow as they please
        wanted, gradients = expected(sources)
        verdicts = [_verdict(sources, wanted, stage) for stage in ORDER]
        _note_unknown(sources, verdicts)
        if first := first_difference(verdicts):
            verdict, finding = first
            verdict.diagnosis = explain(sources, wanted, gradients, verdict, finding)
            for other in verdicts:
                if other.status == "failed" and other is not verdict:
                    other.why += f"; the first difference is in {verdict.stage} of step {finding.step}"
    return Outcome(target, sources.microbatches, sources.semantics, verdicts)


def refuse(sources: Sources):
    """Raise ValueError for a trace that ours cannot be held against. Local."""
    theirs, ours = sources.theirs, sources.ours
    if theirs.head["edition"] != ours.head["edition"]:
        raise ValueError(f"the trace begins from edition {theirs.head['edition'][:12]} of {theirs.name}; this version "
                         f"has {ours.head['edition'][:12]}: export it again")
    for what in ("training", "variables"):  # they may be left out, but not changed
        _refuse_settings(what, theirs.head.get(what, ours.head[what]), ours.head[what])
    semantics = sources.semantics
    if theirs.joined_at == "model" and not {semantics.sparse, semantics.dense} <= {"sum", "average"}:
        raise ValueError(f"a model trained with sparse = {semantics.sparse} has other numbers than this trace: begin "
                         "with our local gradients, and say \"joined_at\": \"aggregate\"")
    shapes = {v.name: v for v in sources.variables}
    for (stage, step, microbatch, name, part), array in theirs.arrays.items():
        where = f"{stage} of {name}, step {step}" + (f", microbatch {microbatch}" if microbatch is not None else "")
        if stage in ("carried", "metrics"):
            _refuse_place(where, sources, (stage, step, microbatch, name, part), array)
        if stage in ("inputs", "carried", "metrics"):
            continue
        if name not in shapes:
            raise ValueError(f"no variable {name!r} in {theirs.name} ({where}); it has {', '.join(shapes)}")
        if stage != "start" and step not in range(sources.steps):
            raise ValueError(f"{where}: {theirs.name} has steps 0 to {sources.steps - 1}")
        if (stage == "local") != (microbatch in range(sources.microbatches)):
            raise ValueError(f"{where}: only local gradients belong to a microbatch, 0 to {sources.microbatches - 1}")
        _refuse_form(where, shapes[name], stage, part, array, theirs.precision)


def _refuse_settings(what, theirs, ours):
    """Raise ValueError naming the first setting of a manifest that is not ours. Local."""
    if isinstance(theirs, dict) and isinstance(ours, dict):
        for name in sorted(theirs.keys() | ours.keys()):
            _refuse_settings(f"{what}.{name}", theirs.get(name), ours.get(name))
    elif theirs != ours:
        raise ValueError(f"the trace says {what} = {_shortly(theirs)}; ours was made with {_shortly(ours)}: train with "
                         f"that, or leave it out")


def _shortly(value) -> str:
    text = json.dumps(value)
    return text if len(text) <= 60 else f"{text[:60]}..."


def _refuse_place(where, sources, place, array):
    """Raise ValueError for what ours has at no step, or in another shape. Local.

    What is carried into a first step is zero, and not in ours: it may be handed in.
    """
    ours = sources.ours.arrays.get(place)
    known = any((p[0], *p[3:]) == (place[0], *place[3:]) for p in sources.ours.arrays)
    if not known or place[1] not in range(sources.steps) or place[2] not in (None, *range(sources.microbatches)):
        raise ValueError(f"{where}: our trace has no such array; the exported manifest lists all")
    if ours is not None and array.shape != ours.shape:
        raise ValueError(f"{where}: the array is {list(array.shape)}; expected {list(ours.shape)}")


def _refuse_form(where, variable, stage, part, array, precision):
    rows = variable.sparse and stage in ("local", "aggregated")
    if rows != (part in ("ids", "rows")):
        raise ValueError(f"{where}: give {'parts ids and rows' if rows else 'one array'}, not {part!r}")
    if part == "ids":
        if array.dtype != np.int64 or array.ndim != 1:
            raise ValueError(f"{where}: ids are {array.dtype} {list(array.shape)}; give (n,) int64")
        if len(array) and not 0 <= array.min() <= array.max() < variable.shape[0]:
            raise ValueError(f"{where}: ids from {array.min()} to {array.max()}; there are {variable.shape[0]} rows")
        if stage == "aggregated" and len(np.unique(array)) < len(array):
            raise ValueError(f"{where}: a row occurs more than once; add up rows that have one number")
        return
    shape = (len(array) if array.ndim else 0, *variable.shape[1:]) if part == "rows" else variable.shape
    if array.dtype != precision or array.shape != shape:
        raise ValueError(f"{where}: {part} is {array.dtype} {list(array.shape)}; expected {precision} {list(shape)}")


def _note_unknown(sources, verdicts):
    """Say where there are gradients of microbatches that have no examples."""
    places = sorted({(step, m) for (stage, step, m, _, part), array in sources.theirs.arrays.items()
                     if stage == "local" and part != "ids" and m not in sources.active(step) and array.any()})
    if places and sources.theirs.joined_at == "model":
        verdict, (step, m) = next(v for v in verdicts if v.stage == "local"), places[0]
        words = f"microbatch {m} of step {step} has gradients, though it has no examples"
        verdict.status, verdict.why = "failed", verdict.why or words
        verdict.findings.append(complaint("", words, step, m, "no-examples"))


def _verdict(sources, wanted, stage) -> Verdict:
    """Return the verdict on one stage: skipped if nothing of it was handed in."""
    findings: dict[str, VariableResult] = {}
    for place, want in wanted.items():
        if place[0] == stage and (found := sources.handed_in(place)) is not None:
            _compare(findings, place, found, want)
    failed = [f for f in findings.values() if not f.ok]
    failed.sort(key=lambda f: -1 if f.step is None else f.step)
    status = "failed" if failed else "passed" if findings else "skipped"
    why = failed[0].words if failed else "" if findings else "not handed in"
    return Verdict(f"{sources.theirs.name}/{stage}", sources.microbatches, "trace", stage, status, why,
                   list(findings.values()))


def _compare(findings, place, found, want):
    stage, step, microbatch, variable, part = place
    name = variable if part == "value" else f"{variable} {part}"
    result = findings.setdefault(name, VariableResult(name, True, want.comparison))
    if np.shape(numbers_of(found))[1:] != np.shape(numbers_of(want.value))[1:]:
        result.ok, result.step, result.words = False, step, f"{name} has another shape than ours (step {step})"
        return
    where = "".join(f", {what} {number}" for what, number in (("step", step), ("microbatch", microbatch))
                    if number is not None)
    note(result, found, want, step, microbatch, stage + where)


def first_difference(verdicts) -> tuple[Verdict, VariableResult] | None:
    """Return the verdict and finding of what differs first: by step, then by the order of the stages. Local."""
    failed = [(v, f) for v in verdicts for f in v.findings if not f.ok]
    return min(failed, default=None, key=lambda pair: (-1 if pair[1].step is None else pair[1].step,
                                                       ORDER.index(pair[0].stage)))
