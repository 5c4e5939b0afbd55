"""Many trials in shared jobs: one that ends or holds up its job is found by the ranks' journals; the rest go on."""

import json
import shutil
import time
from dataclasses import dataclass, field
from pathlib import Path

from faults.job import Job

START_SECONDS = 90.0  # for a job to come to its first task, on a machine that others use, too


@dataclass
class Told:
    """What came of one task.

    statuses, stdouts, stderrs: by rank; a status is None where the rank did not end the task.  hung: it was not done
    within its bound.  left: processes that its job left behind.  seconds: from the first rank's begin.  lied: whether
    it marked a lie.
    """

    statuses: list[int | None]
    stdouts: list[str]
    stderrs: list[str]
    seconds: float
    hung: bool = False
    left: list[str] = field(default_factory=list)
    shared: list[str] = field(default_factory=list)
    lied: bool = False


def run_tasks(tasks: list[dict], ranks: int, command, place: Path, bound: float) -> list[Told]:
    """Run the tasks of ``batch``, each within ``bound`` seconds; return what came of each. Local.

    command(ranks, arguments) -> (argv, environment).  place: a directory for what they write, emptied first.
    Raises RuntimeError if a job does not come to its first task.
    """
    found: list[Told] = []
    while len(found) < len(tasks):
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir(parents=True)
        (place / "tasks.json").write_text(json.dumps(tasks[len(found):]))
        argv, environment = command(ranks, ["-m", f"{__package__}.batch", str(place)])
        with Job(argv, environment, place / "job") as job:
            found += _follow(job, Journals(place, ranks), len(tasks) - len(found), bound)
    return found


def _follow(job, journals, count: int, bound: float) -> list[Told]:
    """Watch a job until its tasks are done, or one has ended it or held it up; return what came of those. Local."""
    found, begun, task, idle = [], None, 0, job.begun
    while task < count:
        running = job.launcher.poll() is None  # before the look: what a job wrote before its end is seen
        journals.read()
        if begun is None and journals.begun(task):
            begun = time.monotonic()
        if journals.done(task):
            found.append(journals.told(task, time.monotonic() - begun))
            begun, task, idle = None, task + 1, time.monotonic()
            continue
        waited = time.monotonic() - (begun or idle)
        hung = running and waited > (bound if begun or found else START_SECONDS)
        if hung or not running:
            if begun is None and not found:
                raise RuntimeError(f"a job of the experiment did not start: {job.seen(job.begun, not hung).stderr}")
            if not hung:
                job.wait_until_gone(1.0)
            seen = job.seen(job.begun, not hung)
            told = journals.told(task, waited)
            told.hung, told.left, told.shared = hung, seen.left if not hung else [], seen.shared
            if not hung and not any(told.stderrs):
                told.stderrs[0] = seen.stderr
            return [*found, told]
        time.sleep(0.005)
    job.wait_until_gone(bound)
    return found


class Journals:
    """What the ranks of a batch have written so far. Local."""

    def __init__(self, place: Path, ranks: int):
        self.place, self.ranks = place, range(ranks)
        self.begins: list[set[int]] = [set() for _ in self.ranks]
        self.statuses: list[dict[int, int]] = [{} for _ in self.ranks]

    def read(self):
        """Read the journals anew."""
        for rank in self.ranks:
            try:
                lines = (self.place / f"rank-{rank}").read_text().splitlines()
            except OSError:
                continue
            for what, task, *status in (line.split() for line in lines):
                self.begins[rank].add(int(task))
                if what == "end" and status:
                    self.statuses[rank][int(task)] = int(status[0])

    def begun(self, task: int) -> bool:
        """Return whether a rank has begun the task."""
        return any(task in begins for begins in self.begins)

    def done(self, task: int) -> bool:
        """Return whether all ranks have ended the task."""
        return all(task in statuses for statuses in self.statuses)

    def told(self, task: int, seconds: float) -> Told:
        """Return what the ranks wrote during a task."""
        def text(*name):
            path = self.place / "-".join(map(str, name))
            return path.read_text(errors="replace") if path.exists() else ""

        return Told([statuses.get(task) for statuses in self.statuses], [text("out", task, r) for r in self.ranks],
                    [text("err", task, r) for r in self.ranks], seconds,
                    lied="lie" in text("marks", task).splitlines())
