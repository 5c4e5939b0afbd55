"""The count: per kind, how trials ended, how long they took, what must not be; and each failed one, to be repeated."""

import statistics
from pathlib import Path

from faults import KINDS
from faults.trial import ENDS, Outcome

HEADINGS = ["kind", "trials", *ENDS[:4], "hangs", "silent", "tracebacks", "words missing", "left behind",
            "other faults", "median s", "max s"]
COUNTED = ("hang", "silent acceptance", "traceback", "words", "leftover")
"""Words by which a fault is counted in its column."""


def rows_of(outcomes: list[Outcome]) -> list[list[str]]:
    """Return a row of HEADINGS for each kind, and for all."""
    return [_row(kind, some) for kind in (*KINDS, "all")
            if (some := [one for one in outcomes if kind in ("all", one.trial.kind)])]


def _row(kind, outcomes):
    ends = [sum(one.end == end for one in outcomes) for end in ENDS[:4]]
    faults = [sum(any(word in fault for fault in one.faults) for one in outcomes) for word in COUNTED]
    other = sum(any(not any(word in fault for word in COUNTED) for fault in one.faults) for one in outcomes)
    seconds = [one.seconds for one in outcomes]
    return [kind, *map(str, (len(outcomes), *ends, *faults, other)), f"{statistics.median(seconds):.1f}",
            f"{max(seconds):.1f}"]


def failures(outcomes: list[Outcome]) -> list[str]:
    """Return a line for each failed trial: what was done, what came of it, what was said."""
    return [f"{one.trial.name}: {one.end}; {', '.join(one.faults)}; {one.seconds:.1f} s; {' '.join(one.words.split())}"
            for one in outcomes if one.faults]


def again(outcome: Outcome) -> str:
    """Return the command that repeats a trial."""
    trial = outcome.trial
    return f"PYTHONPATH=tests/laboratory python -m faults --seed {trial.seed} --only {trial.number}"


def write_report(directory: Path, outcomes: list[Outcome], command: str) -> Path:
    """Write report.md: the table, and each failed trial with how to repeat it. Local."""
    lines = ["# Hostile trials", "", f"`{command}`", ""]
    lines += ["| " + " | ".join(HEADINGS) + " |", "|" + " --- |" * len(HEADINGS)]
    lines += ["| " + " | ".join(row) + " |" for row in rows_of(outcomes)]
    failed = [one for one in outcomes if one.faults]
    lines += ["", f"Failed: {len(failed)}", ""]
    for one, line in zip(failed, failures(outcomes)):
        lines += [f"- {line}", f"  `{again(one)}`"]
    path = directory / "report.md"
    path.write_text("\n".join(lines) + "\n")
    return path
