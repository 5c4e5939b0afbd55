"""What an owner without barriers should answer, in float64; and what it would with a known fault.

Dense variables and rows are cells alike: (name, None) or (name, id) -> value, optimizer state, updates so
far. G is a worker's own mean gradient. An update takes n pushes, corrects each, and applies their mean.

    staleness-aware    G / max(1, τ)              τ: updates of this cell since the worker pulled it
    dc-asgd            G + λ G G (w - b)          b: what it pulled, w: what it is now
    dc-asgd-adaptive   λ / sqrt(MS + ε) for λ,    MS = m MS + (1 - m) G G

Rounding: a cell's error grows with each update by what it passes on, and by u times what was computed, to first order;
of what an optimizer keeps only adagrad's sum is followed, in which nothing cancels: with momentum cases are exact.
"""

from typing import NamedTuple

import numpy as np

from refimpl.conformance.case import Case, Rows
from refimpl.conformance.cases.owner import first_values
from refimpl.conformance.rules.aggregate import Expected
from refimpl.plain.optimizers import OPTIMIZERS


class OwnedValue:
    """One dense variable, or one row. error: how far float32 may be from ``value``, element by element."""

    def __init__(self, value, task):
        self.value = value.astype(np.float64)
        self.state = OPTIMIZERS[task["optimizer"]](**task["options"]).state(self.value)
        self.updates, self.squares, self.error = 0, 0.0, np.zeros_like(self.value)


class ExpectedPush(NamedTuple):
    """gradients: key -> G.  old: key -> (value, error, updates) as pulled.  version: of the owner then."""

    worker: int
    version: int
    gradients: dict
    old: dict


class Service:
    """One play of a case's script. fault: see ``space.owner.WORDS``.  variable: whose cells it hits, None: all."""

    def __init__(self, case: Case, fault: str = "", variable: str | None = None):
        self.case, self.task, self.fault, self.variable = case, case.settings["task"], fault, variable
        self.rule, _, number = self.task["consistency"].partition(":")
        self.number = int(number or 0) + {"clock-early": -1, "clock-late": 1}.get(fault, 0)
        self.cells = {key: OwnedValue(value, self.task) for name, part in first_values(case).items()
                      for key, value in cells_of(name, part)}
        workers = self.task["workers"]
        self.version, self.clocks, self.seen, self.old, self.held = 0, [0] * workers, [-1] * workers, {}, []

    def run(self) -> list | None:
        """Return, for each pull, (entries that came before its answer, {key: (value, error)}); None if one waits on."""
        answers, waiting = [], {}
        for number, (what, worker) in enumerate(self.case.settings["entries"]):
            parts = self.case.steps[number][0]
            if what == "pull":
                waiting[worker] = number, len(answers), parts
                answers.append(None)
            elif worker in waiting:
                return None
            else:
                self.push(worker, parts)
            for w in [w for w in waiting if self.may_pull(w)]:
                asked, place, rows = waiting.pop(w)
                answers[place] = number - asked, self.pull(w, rows)
        return None if waiting else answers

    def may_pull(self, worker) -> bool:
        """Return whether a pull is answered now."""
        if self.rule == "bounded":
            return self.clocks[worker] - min(self.clocks) <= self.number
        return self.rule != "backup" or self.seen[worker] < self.version

    def pull(self, worker, rows):
        """Return key -> (value, error)."""
        keys = [(v.name, k) for v in self.case.variables for k in (rows[v.name].tolist() if v.sparse else [None])]
        cells = {key: self.cells[key] for key in keys}
        self.seen[worker] = self.version
        self.old[worker] = {key: (c.value.copy(), c.error, c.updates) for key, c in cells.items()}
        return {key: old[:2] for key, old in self.old[worker].items()}

    def push(self, worker, parts):
        """Take a push, and do the update that it completes."""
        gradients = {key: g.astype(np.float64) for name, part in parts.items() for key, g in cells_of(name, part)}
        push = ExpectedPush(worker, self.seen[worker], gradients, self.old.pop(worker))
        self.clocks[worker] += 1
        stale, full = push.version < self.version, 1
        if stale and (self.rule == "backup" and self.fault != "late-counted" or self.fault == "stale-dropped"):
            return
        if self.rule in ("softsync", "backup"):
            workers = len(self.clocks)
            full = workers // self.number if self.rule == "softsync" else workers - self.number
        self.held.append(push)
        if len(self.held) == full:
            self.update(sorted(self.held, key=lambda p: p.worker))
            self.held = []

    def update(self, pushes):
        """Apply the mean of some pushes."""
        n = {"divided-by-workers": len(self.clocks), "summed": 1}.get(self.fault, len(pushes))
        unit = float(np.finfo(np.float32).eps) / 2
        for key in sorted({key for p in pushes for key in p.gradients}, key=str):
            cell, before = self.cells[key], self.cells[key].value.copy()
            total, size, error = (sum(part) / n for part in zip(*(self.corrected(key, p) for p in pushes
                                                                  if key in p.gradients)))
            OPTIMIZERS[self.task["optimizer"]](**self.task["options"]).apply(
                cell.value, cell.state, ..., total, self.task["rate"], self.version + 1)
            size = np.maximum(self.task["rate"] * size, np.abs(cell.value - before))
            cell.updates += 1
            cell.error = cell.error + self.task["rate"] * error + unit * (
                (16 + 4 * cell.updates) * size + 2 * np.abs(cell.value))
        self.version += 1

    def corrected(self, key, push):
        """Return (the corrected G, the sizes of what it is added up from, the error that it passes on)."""
        g, cell, none = push.gradients[key], self.cells[key], np.zeros(())
        correction = "none" if self.fault == "uncorrected" else self.task["correction"]
        old, error, updates = push.old.get(key, (cell.value, cell.error, cell.updates))
        if correction == "staleness-aware":
            stale = (self.version - push.version if self.fault == "staleness-per-worker" else cell.updates - updates)
            g = g / max(1, stale)
        if not correction.startswith("dc-asgd"):
            return g, np.abs(g), none
        if self.fault == "aliased" and self.variable in (None, key[0]):
            old = cell.value
        strength = self.task["constants"]["lam"]
        if correction == "dc-asgd-adaptive":
            m = self.task["constants"]["m"]
            cell.squares = m * cell.squares + (1 - m) * g * g
            strength = strength / np.sqrt(cell.squares + self.task["constants"]["epsilon"])
        slope = strength * g * g
        added = slope * (cell.value - old)
        return g + added, np.abs(g) + np.abs(added), slope * (cell.error + error)


def cells_of(name, part):
    """Yield (key, array) of each cell of an array or Rows. Local."""
    if isinstance(part, Rows):
        yield from (((name, int(k)), row) for k, row in zip(part.ids, part.rows))
    else:
        yield (name, None), part


def served(case: Case, fault: str = "", variable: str | None = None) -> list[dict[str, Expected]] | None:
    """Return, pull by pull, name -> what it should get, and ``waited``; None if some pull is never answered. Local."""
    answers = Service(case, fault, variable).run()
    if answers is None:
        return None
    result = []
    for waited, values in answers:
        result.append({"waited": Expected(np.array(waited, np.float64), np.zeros(()), "int64")})
        for v in case.variables:
            ids = [k for name, k in values if name == v.name]
            value, error = (np.array([values[v.name, k][i] for k in ids]) for i in (0, 1))
            tolerance = np.zeros_like(error) if case.exact else error
            result[-1][v.name] = (Expected(Rows(np.array(ids, np.int64), value), tolerance, v.dtype) if v.sparse else
                                  Expected(value[0], tolerance[0], v.dtype))
    return result
