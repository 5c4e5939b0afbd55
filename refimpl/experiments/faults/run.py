"""All trials: those that are not done yet, in shared jobs where they can, several at once; what is done is kept.

The parent of all jobs. However it ends (interrupt, SIGTERM), no job of its own is left.
"""

import json
import os
import shutil
import signal
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from itertools import groupby
from pathlib import Path
from typing import Callable

from refimpl.experiments.faults.trained.subject import arguments
from refimpl.experiments.faults.trial import Outcome, Trial, draw
from refimpl.experiments.faults.watch import processes
from refimpl.experiments.faults.watch.job import JOBS, Job
from refimpl.experiments.faults.workshop import Workshop, alone
from refimpl.experiments.parallax.cells.cell import code_version

SOURCES = ("kernels", "models", "refimpl")
SHARED = 40  # trials of a shared job at most: its start is paid once
TOGETHER = 12  # trials with jobs of their own that one thread runs before the next look at what is left to do
SWEEP_SECONDS = 120.0


class Record:
    """What is done, in trials.jsonl: a line a trial, with the version of the code. Safe from several threads. Local."""

    def __init__(self, path: Path, version: str, any_version: bool, say: Callable[[str], None]):
        self.path, self.version, self.say, self.lock = path, version, say, threading.Lock()
        self.done: dict[str, Outcome] = {}
        for line in path.read_text().splitlines() if path.exists() else []:
            try:
                kept = json.loads(line)
                if any_version or kept.pop("version") == version:
                    kept.pop("version", None)
                    outcome = Outcome.from_json(kept)
                    self.done[key_of(outcome.trial)] = outcome
            except (ValueError, KeyError, TypeError):  # a line that was cut off
                continue

    def tell(self, outcome: Outcome):
        """Keep an outcome, unless it is what the end of the experiment made of it."""
        if JOBS.ended:
            return
        with self.lock:
            self.done[key_of(outcome.trial)] = outcome
            with open(self.path, "a") as file:
                file.write(json.dumps({"version": self.version, **outcome.to_json()}) + "\n")
            faults = f"  FAILED: {', '.join(outcome.faults)}" if outcome.faults else ""
            self.say(f"{outcome.trial.name}: {outcome.end}, {outcome.seconds:.1f} s{faults}")


def key_of(trial: Trial) -> str:
    """Return what makes two trials the same."""
    return json.dumps([trial.seed, trial.number, trial.kind, trial.what], sort_keys=True)


def run_trials(output: Path, numbers, seed: int, *, jobs: int = 2, pythons=(), anew: bool = False,
               any_version: bool = False, say: Callable[[str], None] = print) -> list[Outcome]:
    """Run the trials with these numbers; return their outcomes, in order. Local.

    output: directory that keeps them.  pythons: interpreters beside this one.  anew: run those, too, that are done.
    Raises RuntimeError where an honest training fails, LaunchError where none can be started.
    """
    output.mkdir(parents=True, exist_ok=True)
    pythons = [sys.executable, *pythons]
    record = Record(output / "trials.jsonl", code_version(sources=SOURCES) + f"-{len(pythons)}", any_version, say)
    trials = [draw(seed, number) for number in numbers]
    left = [trial for trial in trials if anew or key_of(trial) not in record.done]
    if left:
        say(f"{len(left)} of {len(trials)} trials to run; first the honest trainings")
        _run(left, Workshop(output / f"work-{seed}", pythons), jobs, record.tell)
    outcomes = [record.done[key_of(trial)] for trial in trials]
    return after_next_start(outcomes, output / "next-start")


def _run(trials, workshop, jobs, tell):
    """Run trials in as many threads as there shall be jobs at once; end all jobs if anything goes wrong."""
    previous = signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        workshop.open()
        with ThreadPoolExecutor(jobs) as pool:
            pending = [pool.submit(workshop.run, group, tell) for group in groups_of(trials, workshop, jobs)]
            try:
                for future in pending:
                    future.result()
            except BaseException:  # an interrupt, too
                pool.shutdown(wait=False, cancel_futures=True)
                JOBS.end()
                raise
    finally:
        signal.signal(signal.SIGTERM, previous)
        shutil.rmtree(workshop.place, ignore_errors=True)


def groups_of(trials: list[Trial], workshop: Workshop, jobs: int) -> list[list[Trial]]:
    """Return the trials in groups that one job, or one thread, runs: those of one kind and interpreter together."""
    def kind(trial):
        return not alone(trial), trial.kind if alone(trial) else "", workshop.python(trial)  # slow ones first

    groups = []
    for (shared, *_), some in groupby(sorted(trials, key=kind), kind):
        some = list(some)
        most = min(SHARED if shared else TOGETHER, -(-len(some) // jobs))
        groups += [some[i:i + most] for i in range(0, len(some), most)]
    return groups


def after_next_start(outcomes: list[Outcome], place: Path) -> list[Outcome]:
    """Start refimpl once more, which removes what killed jobs left in shared memory; what remains is a fault. Local.

    place: a directory for the start's output, removed.
    """
    names = {name for outcome in outcomes for name in outcome.shared}
    if processes.nobodys(names):
        argv = [sys.executable, "-m", "refimpl", *arguments("--steps", "1", "--no-output")]
        with Job(argv, os.environ, place) as job:
            job.wait_until_gone(SWEEP_SECONDS)
        shutil.rmtree(place)
    remain = processes.nobodys(names)
    for outcome in outcomes:  # of two trials at the same time the first is blamed
        outcome.faults += [f"leftover: /dev/shm/{name}" for name in sorted(remain & set(outcome.shared))[:1]]
        remain -= set(outcome.shared)
    return outcomes
