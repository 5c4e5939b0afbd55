"""An owner without barriers: a script of arrivals, pulls and pushes of several workers. What does each pull get?

A script says who comes: "0?" worker 0 pulls, "0!" it pushes, "0*" it pulls every row. The gradients are few bits: small
whole numbers times a unit, so that in the exact cases no result of any order of operations has more than float32 holds.
"""

import numpy as np

from refimpl.conformance.case import Arrivals, Case, CaseVariable, Rows, handed, inputs
from refimpl.conformance.cases.numbers import integers, small
from refimpl.conformance.cases.training import OPTIONS
from refimpl.conformance.semantics import SUPPORTS

HOT, ROWS = 6, 8
"""The row that every step of every worker touches, and how many rows there are. Nobody pushes the last."""
THREE = "0? 1? 2? 0! 0? 1! 0! 2! 1? 0? 2? 1! 2! 0! 1*"
FOUR = "0? 1? 2? 3? 0! 0? 1! 2! 0! 3! 1? 2? 0? 3? 2! 1! 0! 3! 1*"
WAITS = "0? 1? 2? 0! 0? 1! 0! 0? 1? 2! 2? 0! 1! 0? 2! 1? 2? 2! 1! 0! 1*"
GOES_ON = "0? 1? 2? 0! 0? 1! 2! 0! 1? 0? 2? 1! 2! 0! 1*"
LATE = "0? 1? 2? 1! 1? 0! 0? 0! 2! 2? 2! 1! 1? 0? 2? 0! 2! 0*"
"""Scripts: workers one after another; faster and slower ones; two that wait, or need not; two that come late."""
COMPENSATED = {"correction": "dc-asgd", "workers": 4, "unit": 1.0, "rate": 0.5, "constants": {"lam": 0.25}}


def cases(ranks: int):
    """Yield the cases for a number of ranks: the scripts are the same for each."""
    for name, about, script, more in (
            ("asynchronous", "pushes are applied as they come, however stale, one of them without rows", THREE,
             {"rows": _one_empty}),
            ("momentum", "momentum, a step for each push", THREE, {"optimizer": "momentum", "options": {"mu": 0.5}}),
            ("adagrad", "adagrad, a step for each push", THREE, {"optimizer": "adagrad", "exact": False}),
            ("bounded-waits", "bounded:1: a worker 2 steps ahead of the slowest waits for it", WAITS,
             {"consistency": "bounded:1"}),
            ("bounded-goes-on", "bounded:1: a worker 1 step ahead does not wait", GOES_ON,
             {"consistency": "bounded:1"}),
            ("softsync", "softsync:2: an update is the mean of 2 pushes of 4 workers", FOUR,
             {"consistency": "softsync:2", "workers": 4}),
            ("backup", "backup:1: a step is the mean of the first 2 pushes of 3; the third comes late, and is dropped",
             LATE, {"consistency": "backup:1"}),
            ("softsync-versions", "softsync:2: each answer says how many updates its values contain", FOUR,
             {"consistency": "softsync:2", "workers": 4, "needs": ("versions",)}),
            ("backup-versions", "backup:1: the same, where late pushes are dropped", LATE,
             {"consistency": "backup:1", "needs": ("versions",)}),
            ("staleness-aware", "a row's gradient is divided by how often that row was updated since the pull", FOUR,
             {"correction": "staleness-aware", "workers": 4}),
            ("softsync-corrected", "each push is divided by its staleness, then comes the mean", FOUR,
             {"correction": "staleness-aware", "consistency": "softsync:2", "workers": 4}),
            ("dc-asgd", "delay compensation against the values that the worker pulled", THREE, COMPENSATED),
            ("dc-asgd-adaptive", "delay compensation divided by the root of a mean square", THREE,
             {**COMPENSATED, "correction": "dc-asgd-adaptive", "exact": False,
              "constants": {"lam": 0.125, "m": 0.75, "epsilon": 0.25}}),
            ("unpulled", "rows that the worker never pulled have no old value: the push is refused", "0? 1? 0! 1! 0*",
             {**COMPENSATED, "rows": _one_unpulled, "refused": True}),
            ("ids-2^31", "row numbers around and above 2^31", THREE, {"first": 2**31 - 5, "needs": ("row-keys",)})):
        yield owner_case(f"owner/{name}", about, ranks, script, **more)


def _rows(worker, clock):
    """Return (places of pulled rows, places of pushed rows): the worker's own row, one in turn, and a hot row."""
    pulled = [clock % 2, 2 + worker, HOT]
    return pulled, pulled[(worker + clock) % 2:]


def _one_empty(worker, clock):
    pulled, pushed = _rows(worker, clock)
    return pulled, [] if (worker, clock) == (1, 0) else pushed


def _one_unpulled(worker, clock):
    pulled, pushed = _rows(worker, clock)
    return pulled, [*pushed, HOT + 1] if worker == 1 else pushed


def owner_case(name, about, ranks, script, *, rows=_rows, unit=0.75, first=0, exact=True, refused=False, needs=(),
               **task) -> Case:
    """Return a case. rows: see ``_rows``.  unit: of gradients.  first: number of the first row.  task: of Arrivals.

    refused: the right answer is an error.
    """
    task = {"optimizer": "sgd", "rate": 0.25, "workers": 3, "consistency": "asynchronous", "correction": "none",
            "constants": {}, **task}
    task.setdefault("options", OPTIONS[task["optimizer"]])
    entries, steps, clocks = [], [], [0] * task["workers"]
    for worker, what in ((int(word[0]), word[1]) for word in script.split()):
        pulled, pushed = (range(ROWS), ()) if what == "*" else rows(worker, clocks[worker])
        ids = np.array(pushed if what == "!" else pulled, np.int64) + first
        parts = {"table": ids}
        if what == "!":
            key = f"{name}{worker}.{clocks[worker]}"
            rows_of = unit * small(key, (len(ids), 2), 3)
            parts = {"weight": unit * small(f"{key}w", (2, 3), 3), "table": Rows(ids, rows_of)}
            clocks[worker] += 1
        entries.append(("push" if what == "!" else "pull", worker))
        steps.append((parts,) * ranks)
    variables = CaseVariable("weight", (2, 3)), CaseVariable("table", (first + ROWS, 2), True)
    words = task["optimizer"], task["consistency"].partition(":")[0], task["correction"]
    return Case(name, "owner", about, ranks, variables, tuple(steps), exact,
                {"entries": entries, "task": task, "first": first, "refused": refused},
                (*(word for word in words if word in SUPPORTS), *needs))


def first_values(case: Case) -> dict:
    """Return name -> initial value: an array, or Rows of all rows that the case names. Local."""
    start = {v.name: (integers(f"start{v.name}", (ROWS, 2) if v.sparse else v.shape, -64, 64) / 64).astype(v.dtype)
             for v in case.variables}
    return {**start, "table": Rows(np.arange(ROWS) + case.settings["first"], start["table"])}


def arrivals_of(case: Case, rank: int) -> Arrivals:
    """Return what a rank gets, in new memory. Local."""
    entries = [(what, worker, inputs(case, s, rank)) for s, (what, worker) in enumerate(case.settings["entries"])]
    start = {name: handed(part) for name, part in first_values(case).items()}
    return Arrivals(variables=case.variables, start=start, entries=entries, **case.settings["task"])
