"""Store a notebook as executing it leaves it, or check that what is stored is what executing it gives."""

from pathlib import Path

import nbformat

from refimpl.notebook.execute import execute
from refimpl.notebook.results import STORE
from refimpl.notebook.stored import differences, missing_pictures, normalised, write


def store(path: Path) -> tuple[list[str], float]:
    """Execute a notebook and store it in place, unless it fails; return (problems, seconds). Local."""
    path = Path(path).resolve()
    done = execute(path, {STORE: "1"})
    if not done.problems:
        write(*normalised(done.notebook, path.stem), path)
    return done.problems, done.seconds


def check(path: Path) -> tuple[list[str], float]:
    """Execute a notebook; return (what is wrong with it or stale, seconds). Local; writes nothing."""
    path = Path(path).resolve()
    stored = nbformat.read(path, 4)
    done = execute(path)
    problems = list(done.problems)
    if not problems:
        tidy, _ = normalised(stored, path.stem)
        if nbformat.writes(tidy) != nbformat.writes(stored):
            problems.append(f"not as it is stored: python -m refimpl.notebook store {path.stem}")
        problems += differences(tidy, normalised(done.notebook, path.stem)[0]) + missing_pictures(stored, path)
    return problems, done.seconds
