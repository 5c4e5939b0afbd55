"""Run a cell on one rank: python -m refimpl.notebook.cell_on_rank FOLDER, under the launcher.

The folder holds the cell (cell.py), the code before it (before.py) and given values. Each rank writes its printed
output (rank-R.out) and its error (rank-R.error) to the folder; rank 0 also writes the values that it gives (given/).
"""

import contextlib
import linecache
import sys
import traceback
from pathlib import Path

from refimpl.notebook.exchange import read_values, write_values
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


if __name__ == "__main__":
    main()
