"""Execute a lesson in a new kernel, check its exercises' solutions and the numbers in its prose, and store it."""

import os
import re
from pathlib import Path
from tempfile import TemporaryDirectory

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError
from traitlets.config import Config

from refimpl.notebook.results import STORE
from refimpl.notebook.stored import HELD, normalised, tags, write
from refimpl.transport.launch import ONE_THREAD

SECONDS_PER_CELL = 300
QUIET = ["--log-level=ERROR"]  # a kernel warns that its local sockets are not encrypted
_SOLUTION = re.compile(r"<details>.*?```python\n(.*?)```.*?</details>", re.DOTALL)


def execute(path: Path, environment: dict | None = None) -> tuple[nbformat.NotebookNode, list[str]]:
    """Execute a notebook in a new kernel, in the notebook's folder; then check solutions and prose. Local.

    Returns (the notebook with its outputs, the failures as text). Failures are: an error in a cell, or no error in a
    cell tagged raises-exception; a cell tagged exercise whose solution, in the next folded cell, is not right; numbers
    in prose that are wrong.
    environment: variables for the kernel, added to those of this process.
    """
    notebook = nbformat.read(path, 4)
    with TemporaryDirectory(prefix="kernel-") as sockets:
        client = _client(notebook, path, sockets)
        return notebook, _failures(client, {**os.environ, **ONE_THREAD, **(environment or {})})


def _failures(client, environment) -> list[str]:
    """Execute a notebook in a new kernel; return what is wrong with it, as ``execute`` says."""
    with client.setup_kernel(env=environment):
        for number, cell in enumerate(client.nb.cells):
            if problem := _problem_of(client, cell, number):
                return [f"{_place(number, cell)}: {problem}"]
        return [f"{_place(number, cell)}: {problem}" for number, cell in enumerate(client.nb.cells)
                for problem in _examined(client, number, cell)]


def _client(notebook, path: Path, sockets: str) -> NotebookClient:
    """Return a client whose kernel has its sockets in a folder: of free ports two kernels may choose the same."""
    config = Config(AsyncKernelManager={"transport": "ipc", "ip": f"{sockets}/kernel"})
    return NotebookClient(notebook, timeout=SECONDS_PER_CELL, kernel_name="python3", extra_arguments=QUIET,
                          coalesce_streams=True, resources={"metadata": {"path": str(path.parent)}}, config=config)


def _place(number: int, cell) -> str:
    return f"cell {number} ({cell.id})"


def _problem_of(client, cell, number) -> str:
    """Execute a cell; return its failure, or ""."""
    try:
        client.execute_cell(cell, number)
    except CellTimeoutError:
        return f"not done after {SECONDS_PER_CELL} s"
    except CellExecutionError as problem:
        return f"{problem.ename}: {problem.evalue}"
    failed = any(output.output_type == "error" for output in cell.get("outputs", ()))
    return "is tagged raises-exception, and raises none" if "raises-exception" in tags(cell) and not failed else ""


def _examined(client, number: int, cell) -> list[str]:
    """Return the failures of an exercise's solution and of the cell's prose."""
    found = []
    if "exercise" in tags(cell):
        if "not answered yet" not in _text(cell):
            found.append("as it stands, the exercise does not say 'not answered yet'")
        below = (_SOLUTION.search(other.source) for other in client.nb.cells[number + 1:])
        solution = next(filter(None, below), None)
        said = _executed(client, solution[1]) if solution else "there is none"
        if not re.search(r"^right", said, re.MULTILINE):
            found.append(f"its solution is not right: {said}")
    if held := cell.metadata.get(HELD):
        code = f"from refimpl.notebook.held import complaints\nprint(*complaints({dict(held)!r}, globals()), sep='\\n')"
        found += filter(None, _executed(client, code).splitlines())
    return found


def _executed(client, code: str) -> str:
    """Return the output of an additional cell, or its error."""
    client.nb.cells.append(cell := nbformat.v4.new_code_cell(code))
    problem = _problem_of(client, cell, len(client.nb.cells) - 1)
    client.nb.cells.pop()
    return problem or _text(cell)


def _text(cell) -> str:
    """Return the plain text of a cell's outputs."""
    return "\n".join(output.get("text") or output.get("data", {}).get("text/plain", "") for output in cell.outputs)


def store(path: Path) -> list[str]:
    """Execute a notebook and store it in place, unless it fails; return the failures. Local."""
    path = Path(path).resolve()
    executed, problems = execute(path, {STORE: "1"})
    if not problems:
        write(*normalised(executed, path.stem), path)
    return problems
