"""A job under watch: started in a session of its own, met at a moment of its training, and ended for certain."""

import contextlib
import os
import signal
import subprocess
import time
import uuid
from dataclasses import dataclass, field
from pathlib import Path

from faults import processes
from faults.subject import MARKS

POLL_SECONDS = 0.001
FIND_SECONDS = 0.1
NEVER_SECONDS = 90.0  # the moment that a trial waits for has come by then, on the slowest machine


@dataclass
class Seen:
    """What was seen of a job from outside.

    status: of the launcher, None: it had to be killed.  seconds: from the deed (or the start) until no process was
    left.  ended: by itself, within the bound.  left: processes that had to be killed.  shared: files of /dev/shm that
    came during the job and are nobody's.  delivered: whether the deed found whom it was meant for.
    """

    status: int | None = None
    seconds: float = 0.0
    ended: bool = False
    stdout: str = ""
    stderr: str = ""
    left: list[str] = field(default_factory=list)
    shared: list[str] = field(default_factory=list)
    delivered: bool = True


class Interrupted(RuntimeError):
    """No job is started any more: the experiment ends."""


class Jobs:
    """The jobs that are running, in whatever thread, so that all can be ended. Local."""

    def __init__(self):
        self.running: set[Job] = set()
        self.ended = False

    def end(self):
        """Start no job any more, and kill those that are running."""
        self.ended = True
        for job in list(self.running):
            job.finish()


JOBS = Jobs()


class Job:
    """A running job. Use as a context: at its end nothing of it is left. Local.

    argv, environment: of mpirun_command.  place: empty directory for its output and marks.
    Raises Interrupted once ``JOBS.end()`` was called.
    """

    def __init__(self, argv, environment, place: Path):
        if JOBS.ended:
            raise Interrupted("the experiment ends")
        name = uuid.uuid4().hex
        self.place, self.finder, self.before = place, processes.Finder(name), processes.shared_files()
        self.marks = place / "marks"
        place.mkdir(parents=True, exist_ok=True)
        self.streams = [open(place / stream, "wb") for stream in ("stdout", "stderr")]  # no pipe: nobody waits for us
        self.begun = time.monotonic()
        self.launcher = subprocess.Popen(
            argv, env={**environment, processes.MARK: name, MARKS: str(self.marks)}, start_new_session=True,
            stdin=subprocess.DEVNULL, stdout=self.streams[0], stderr=self.streams[1])
        JOBS.running.add(self)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.finish()
        JOBS.running.discard(self)
        for stream in self.streams:
            stream.close()

    def finish(self) -> list[str]:
        """Kill what is left; return what that was."""
        found: dict[int, str] = {}
        while left := self.finder.living():
            for p in left:
                found.setdefault(p.pid, f"{p.name} {p.pid} ({p.state if p.rank is None else f'rank {p.rank}'})")
            processes.kill(left)
            time.sleep(0.02)
        self.launcher.wait()
        return list(found.values())

    def wait_for(self, has_come) -> bool:
        """Return whether has_come() while the job runs; it is asked every millisecond."""
        while self.launcher.poll() is None and time.monotonic() - self.begun < NEVER_SECONDS:
            if has_come():
                return True
            time.sleep(POLL_SECONDS)
        return False

    def marked(self, *what: str) -> bool:
        """Return whether the training has left such marks, in this order."""
        left = iter(self.marks.read_text().splitlines() if self.marks.exists() else ())
        return all(mark in left for mark in what)  # each search goes on where the one before has ended

    def send(self, number: int, target: str) -> bool:
        """Send a signal to "rank R", "launcher" or "proxy" (none: the launcher); return whether it was there."""
        found = processes.targets_of(self.finder.living(), self.launcher.pid)
        if target == "proxy" and target not in found:
            target = "launcher"
        if target in found and (target != "launcher" or self.launcher.poll() is None):
            with contextlib.suppress(ProcessLookupError):
                os.kill(found[target], number)
                return True
        return False

    def wait_until_gone(self, seconds: float) -> bool:
        """Return whether every process of the job has ended within so many seconds."""
        end = time.monotonic() + seconds
        while True:
            if self.launcher.poll() is not None and not self.finder.living():
                return True
            if time.monotonic() > end:
                return False
            time.sleep(FIND_SECONDS)

    def only_stopped_are_left(self) -> bool:
        """Return whether no rank is left, but who is above it, stopped from outside: who stopped them goes on."""
        living = self.finder.living()
        ranks = {process.pid for process in living if process.rank is not None}
        stopped = [p for p in living if p.state in "Tt"]
        for process in stopped:
            os.kill(process.pid, signal.SIGCONT)
        return bool(stopped) and not any(process.parent in ranks for process in living)

    def seen(self, since: float, ended: bool) -> Seen:
        """Return what was seen; kill what is left. since: time.monotonic() of the deed."""
        seconds = time.monotonic() - since
        status = self.launcher.poll()
        left = self.finish()
        texts = [(self.place / stream).read_text(errors="replace") for stream in ("stdout", "stderr")]
        new = processes.shared_files() - self.before
        return Seen(status, seconds, ended, *texts, left, sorted(processes.nobodys(new)))
