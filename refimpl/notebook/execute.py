"""Execute a notebook in a clean kernel, and the solutions that it folds away; store it so, or check what is stored."""

import os
import re
import time
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError

from refimpl.notebook.numbers import HELD
from refimpl.notebook.results import STORE
from refimpl.notebook.stored import differences, missing_pictures, normalised, tags, write
from refimpl.transport.launch import ONE_THREAD

EXERCISE = "exercise"
"""Tag of a code cell that the reader is to change; the solution is in the next cell that folds one away."""
SECONDS_PER_CELL = 300
QUIET = ["--log-level=ERROR"]  # a kernel warns that its local sockets are not encrypted
_SOLUTION = re.compile(r"<details>.*?```python\n(.*?)```.*?</details>", re.DOTALL)


def execute(path: Path, environment: dict | None = None) -> tuple[nbformat.NotebookNode, list[str], float]:
    """Execute a notebook in a new kernel, in the notebook's folder; then its solutions, which must be right. Local.

    Returns (the notebook with its outputs, what failed in words, seconds of the whole). An error ends it and is a
    problem, unless the cell is tagged raises-exception (then none is one). Prose that does not hold is a problem, too.
    environment: added to this process's, for the kernel.
    """
    notebook = nbformat.read(path, 4)
    client = NotebookClient(notebook, timeout=SECONDS_PER_CELL, kernel_name="python3", extra_arguments=QUIET,
                            resources={"metadata": {"path": str(path.parent)}})
    problems, begin = [], time.monotonic()
    with client.setup_kernel(env={**os.environ, **ONE_THREAD, **(environment or {})}):
        for number, cell in enumerate(notebook.cells):
            if problem := _problem_of(client, cell, number):
                problems.append(problem)
                break
        else:
            problems += _held(client, notebook) + _solve(client, notebook)
    return notebook, problems, time.monotonic() - begin


def _problem_of(client, cell, number) -> str:
    """Execute a cell; return what is wrong with it, "" if nothing."""
    if cell.cell_type != "code":
        return ""
    where = f"cell {number} ({cell.id})"
    try:
        client.execute_cell(cell, number)
    except CellTimeoutError:
        return f"{where}: not done after {SECONDS_PER_CELL} s"
    except CellExecutionError as problem:
        return f"{where}: {problem.ename}: {problem.evalue}"
    failed = any(output.output_type == "error" for output in cell.outputs)
    if "raises-exception" in tags(cell) and not failed:
        return f"{where}: is tagged raises-exception, and raises none"
    return ""


def _held(client, notebook) -> list[str]:
    """Return what cells say in prose and the kernel does not find (see ``refimpl.notebook.numbers``)."""
    found = []
    for number, cell in enumerate(notebook.cells):
        if HELD in cell.metadata:
            code = ("from refimpl.notebook.numbers import complaints\n"
                    f"print(*complaints({dict(cell.metadata[HELD])!r}, globals()), sep='\\n')")
            notebook.cells.append(asked := nbformat.v4.new_code_cell(code))
            problem = _problem_of(client, asked, len(notebook.cells) - 1).partition(": ")[2]
            notebook.cells.pop()
            found += [f"cell {number} ({cell.id}): {line}" for line in (problem or _text(asked)).splitlines() if line]
    return found


def solutions(notebook) -> list[tuple[int, str]]:
    """Return (number of the exercise's cell, code of its solution). Local. Raises ValueError for one without any."""
    found = []
    for number, cell in enumerate(notebook.cells):
        if cell.cell_type == "code" and EXERCISE in tags(cell):
            below = (_SOLUTION.search(c.source) for c in notebook.cells[number + 1:] if c.cell_type == "markdown")
            solution = next((match for match in below if match), None)
            if solution is None:
                raise ValueError(f"cell {number} ({cell.id}): an exercise without a solution")
            found.append((number, solution[1]))
    return found


def _solve(client, notebook) -> list[str]:
    """Execute each exercise as it stands (it must say so) and its solution (it must be right); return the problems."""
    problems = []
    try:
        answers = solutions(notebook)
    except ValueError as problem:
        return [str(problem)]
    for number, code in answers:
        where = f"cell {number} ({notebook.cells[number].id})"
        if "not answered yet" not in _text(notebook.cells[number]):
            problems.append(f"{where}: as it stands, the exercise does not say 'not answered yet'")
        notebook.cells.append(solved := nbformat.v4.new_code_cell(code))
        problem = _problem_of(client, solved, len(notebook.cells) - 1).partition(": ")[2]
        notebook.cells.pop()
        if problem or not re.search(r"^right", _text(solved), re.MULTILINE):
            problems.append(f"{where}: its solution is not right: {problem or _text(solved)}")
    return problems


def _text(cell) -> str:
    """Return the plain text of a cell's outputs."""
    return "\n".join(output.get("text") or output.get("data", {}).get("text/plain", "") for output in cell.outputs)


def store(path: Path) -> tuple[list[str], float]:
    """Execute a notebook and store it in place, unless it fails; return (problems, seconds). Local."""
    path = Path(path).resolve()
    executed, problems, seconds = execute(path, {STORE: "1"})
    if not problems:
        write(*normalised(executed, path.stem), path)
    return problems, seconds


def check(path: Path) -> tuple[list[str], float]:
    """Execute a notebook; return (what is wrong with it or stale, seconds). Local; writes nothing."""
    path = Path(path).resolve()
    stored = nbformat.read(path, 4)
    executed, problems, seconds = execute(path)
    if not problems:
        tidy, _ = normalised(stored, path.stem)
        if nbformat.writes(tidy) != nbformat.writes(stored):
            problems.append(f"not as it is stored: python -m refimpl.notebook store {path.stem}")
        problems += differences(tidy, normalised(executed, path.stem)[0]) + missing_pictures(stored, path)
    return problems, seconds
