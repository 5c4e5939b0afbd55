"""Run a cell on one rank: python -m refimpl.notebook.cell_on_rank FOLDER, under the launcher.

The folder holds the cell (cell.py), the code before it (before.py) and given values. Each rank writes its printed
output (rank-R.out) and its error (rank-R.error) to the folder; rank 0 also writes the values that it gives (given/).
Values are JSON, and .npy for arrays. Nothing is pickled.
"""

import contextlib
import json
import linecache
import sys
import traceback
from pathlib import Path

import numpy as np

from refimpl.transport.job import all_ranks, end_job

NAMES = (("before.py", "everywhere"), ("cell.py", "cell"))
"""File of the folder -> what tracebacks call it."""


def main() -> None:
    """Run the cell on this rank; end all ranks if it fails here. Collective."""
    folder, comm, given = Path(sys.argv[1]), all_ranks(), {}

    def give(**values):
        """Return values to the notebook from rank 0; values of other ranks are ignored. Local."""
        given.update(values)

    names = {"__name__": "__main__", "comm": comm, "rank": comm.rank, "size": comm.size, "give": give,
             **read_values(folder)}
    with open(folder / f"rank-{comm.rank}.out", "w", encoding="utf-8", buffering=1) as out:
        try:
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
                for file, called in NAMES:
                    _run(folder / file, called, names)
            if comm.rank == 0:
                (folder / "given").mkdir()
                write_values(folder / "given", given)
        except BaseException as problem:
            if isinstance(problem, SystemExit) and not problem.code:
                return
            (folder / f"rank-{comm.rank}.error").write_text(told(problem), encoding="utf-8")
            out.flush()
            sys.exit(end_job(1))


def _run(path: Path, called: str, names: dict) -> None:
    """Execute a file under a short name from which tracebacks can quote lines."""
    source = path.read_text(encoding="utf-8")
    linecache.cache[called] = (len(source), None, source.splitlines(keepends=True), called)
    exec(compile(source, called, "exec"), names)


def told(problem: BaseException) -> str:
    """Return the error with the lines of the notebook that led to it, innermost last."""
    lines = []
    for frame in traceback.extract_tb(problem.__traceback__):
        if frame.filename in dict(NAMES).values():
            lines.append(f"{frame.filename}, line {frame.lineno}: {frame.line}")
    if isinstance(problem, SyntaxError) and problem.filename in dict(NAMES).values():
        lines.append(f"{problem.filename}, line {problem.lineno}: {(problem.text or '').strip()}")
    return "\n".join([*lines, f"{type(problem).__name__}: {problem}"])


def write_values(folder: Path, values: dict) -> None:
    """Write named values into a folder. Local.

    Raises TypeError unless a value is an array of numbers or plain data (numbers, text, None, lists, dicts of text).
    """
    plain = {}
    for name, value in values.items():
        if isinstance(value, np.ndarray) and value.dtype.kind in "biufc":
            np.save(folder / f"{name}.npy", value, allow_pickle=False)
            continue
        try:
            plain[name] = json.loads(json.dumps(value, default=_number))
        except (TypeError, ValueError) as problem:
            raise TypeError(f"{name} is {type(value).__name__}, which does not travel between ranks and notebook: give "
                            f"numbers, text, lists, dicts or arrays of numbers ({problem})") from problem
    (folder / "values.json").write_text(json.dumps(plain))


def read_values(folder: Path) -> dict:
    """Return the values that ``write_values`` wrote into a folder; an empty dict if there are none. Local."""
    path = folder / "values.json"
    plain = json.loads(path.read_text()) if path.exists() else {}
    return {**plain, **{file.stem: np.load(file, allow_pickle=False) for file in sorted(folder.glob("*.npy"))}}


def _number(value):
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"{type(value).__name__} is no plain data")


if __name__ == "__main__":
    main()
