"""What a stage of a handed-in trace is computed from: theirs where they hand it in, else ours."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from refimpl.conformance.case import CaseVariable, Rows, Task, nothing_of
from refimpl.conformance.semantics import Semantics
from refimpl.conformance.traces.format import JOINS, Trace
from refimpl.plain.adding.rows import aggregate_rows


@dataclass
class Sources:
    """theirs: the trace handed in.  ours, truth, single: golden, of its precision, in float64, in float32."""

    theirs: Trace
    ours: Trace
    truth: Trace
    single: Trace

    def __post_init__(self):
        self.training = self.ours.head["training"]
        self.steps, self.microbatches = self.training["steps"], self.training["microbatches"]
        self.statistics = {v["name"] for v in self.ours.head["variables"] if v["statistic"]}

    @property
    def semantics(self) -> Semantics:
        """Their manifest."""
        return self.theirs.semantics

    @cached_property
    def variables(self) -> tuple[CaseVariable, ...]:
        """The trace's variables, in their precision."""
        return tuple(CaseVariable(v["name"], tuple(v["shape"]), v["sparse"], self.theirs.precision)
                     for v in self.ours.head["variables"])

    @property
    def how(self) -> dict:
        """How parameters are updated: fields of ``Task``."""
        return {what: self.training[what] for what in ("optimizer", "rate", "options", "clip")}

    @cached_property
    def task(self) -> Task:
        """The same as a task, without values and gradients."""
        return Task(self.variables, {}, steps=[], **self.how)

    @cached_property
    def parts(self) -> list[tuple[str, str]]:
        """(variable, "value" or slot) of all that an update changes."""
        slots = sorted({place[4] for place in self.ours.arrays if place[0] == "state"})
        return [(v.name, part) for v in self.variables
                for part in ("value", *(slots if v.name not in self.statistics else ()))]

    def handed_in(self, place):
        """Return their array, or Rows with rising ids, at a place of the expectation; None if they hand none in."""
        stage, step, microbatch, name, part = place
        found = self.theirs.get("parameters" if stage == "training" else stage, step, name, microbatch, part)
        return None if found is None else merged(found)

    def active(self, step) -> list[int]:
        """Return the microbatches that have examples."""
        return [m for m in range(self.microbatches)
                if self.ours.get("local", step, self.variables[0].name, m) is not None]

    def local(self, step) -> list[dict] | None:
        """Return each microbatch's gradients, zero or no rows where it has no examples; None if they are not known."""
        trace = self._giver("local", [("local", step, v.name, m) for m in self.active(step) for v in self.variables])
        return trace and [{v.name: nothing_of(v) if (part := trace.get("local", step, v.name, m)) is None else part
                           for v in self.variables} for m in range(self.microbatches)]

    def aggregated(self, step) -> dict | None:
        """Return the step's gradients; None if they are not known."""
        trace = self._giver("aggregated", [("aggregated", step, v.name, None) for v in self.variables])
        return trace and {v.name: trace.get("aggregated", step, v.name) for v in self.variables}

    def _giver(self, stage, places) -> Trace | None:
        """Return their trace if it has all of the places, ours if they began from it there, else None."""
        if all(self.theirs.get(*place) is not None for place in places):
            return self.theirs
        return self.ours if stage in JOINS[self.theirs.joined_at] else None

    def before(self, step, name, part):
        """Return their parameter (part "value") or state (a slot) before a step; our start for the first; or None."""
        if step == 0:
            theirs = self.theirs.get("start", None, name, part=part)
            return self.ours.get("start", None, name, part=part) if theirs is None else theirs
        return self.theirs.get("parameters" if part == "value" else "state", step - 1, name, part=part)


def merged(part):
    """Return an array, or Rows with rising ids, those that repeat added. Local."""
    if not isinstance(part, Rows):
        return part
    once = len(np.unique(part.ids)) == len(part.ids)
    return aggregate_rows(Rows, part.ids, part.rows if once else part.rows.astype(np.float64))
