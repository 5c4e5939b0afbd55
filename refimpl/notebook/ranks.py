"""Run a cell's code on several ranks of real MPI, and return what they printed and gave.

With a rate each rank has an emulated machine of its own. These results can be stored; they are shown on machines that
cannot emulate a cluster.
"""

import subprocess
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from refimpl.experiments.cluster import run_on_cluster
from refimpl.notebook.cell_on_rank import read_values, write_values
from refimpl.notebook.results import measured_or_stored
from refimpl.transport.launch import launch
from refimpl.words import ranks_named

SECONDS = 60.0


class RanksFailed(RuntimeError):
    """A cell on ranks failed; the message says on which rank, in which line, and why."""

    def _render_traceback_(self):  # called by IPython: our own frames would hide the rank's
        return [f"{type(self).__name__}: {self}"]


@dataclass(frozen=True)
class CellRun:
    """printed[r]: the output of rank r.  given: the values that rank 0 returned with ``give``."""

    printed: tuple[str, ...]
    given: dict = field(default_factory=dict)

    def __str__(self) -> str:
        """The lines of all ranks in rank order, each with its rank if there are several."""
        prefix = (lambda rank: f"rank {rank}: ") if len(self.printed) > 1 else (lambda rank: "")
        return "".join(f"{prefix(rank)}{line}\n" for rank, text in enumerate(self.printed)
                       for line in text.splitlines())


def run_on_ranks(ranks: int, code: str, before: str = "", values: dict | None = None, timeout: float = SECONDS,
                 rate: str = "", stored: str = "", keep: bool = False) -> CellRun:
    """Run Python ``code`` on ``ranks`` ranks of a new job and return its CellRun. Local.

    The code has ``comm``, ``rank``, ``size``, ``give`` and the given ``values``; ``before`` runs first.
    rate: "200mbit": each rank on an emulated machine of its own, with a card of that rate.
    stored: name of a stored result (plain data only), which is shown if this machine cannot emulate a cluster; with
    ``keep`` it is shown whenever it exists, and measured only when notebooks are stored.
    Raises RanksFailed if a rank fails or is not done after ``timeout`` seconds (then all ranks are ended); LaunchError
    without an MPI; ClusterError without a cluster and a stored result.
    """
    def run() -> dict:
        with tempfile.TemporaryDirectory(prefix="refimpl-cell-") as name:
            folder = Path(name)
            (folder / "before.py").write_text(before, encoding="utf-8")
            (folder / "cell.py").write_text(code, encoding="utf-8")
            write_values(folder, values or {})
            return _run(folder, ranks, timeout, rate)

    found = measured_or_stored(stored, keep, f"{ranks} emulated machines of 1 rank, {rate}", run) if rate else run()
    return CellRun(tuple(found["printed"]), found["given"])


def _run(folder: Path, ranks: int, timeout: float, rate: str) -> dict:
    arguments = ["-m", "refimpl.notebook.cell_on_rank", str(folder)]
    try:
        job = (run_on_cluster(ranks, 1, rate, arguments, timeout, capture=True) if rate
               else launch(ranks, arguments, timeout, capture=True))
    except subprocess.TimeoutExpired:
        raise RanksFailed(f"not done after {timeout:g} s: does a rank wait for a message that no rank sends?"
                          f"\n{_printed(folder, ranks)}".rstrip()) from None
    printed = _printed(folder, ranks)
    if job.returncode:
        raise RanksFailed(f"{_errors(folder, ranks) or job.stderr.strip()}\n{printed}".rstrip())
    return {"printed": printed.printed, "given": read_values(folder / "given")}


def _printed(folder: Path, ranks: int) -> CellRun:
    files = [folder / f"rank-{rank}.out" for rank in range(ranks)]
    return CellRun(tuple(file.read_text(encoding="utf-8") if file.exists() else "" for file in files))


def _errors(folder: Path, ranks: int) -> str:
    """Return the ranks' errors, equal ones once."""
    who: dict[str, list[int]] = {}
    for rank in range(ranks):
        if (file := folder / f"rank-{rank}.error").exists():
            who.setdefault(file.read_text(encoding="utf-8"), []).append(rank)
    return "\n".join(f"on {ranks_named(which)} of {ranks}:\n{text}"
                     for text, which in who.items())
