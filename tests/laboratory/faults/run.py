"""All trials, in shared jobs where they can, several at once.

The parent of all jobs. However it ends (interrupt, SIGTERM), no job of its own is left.
"""

import os
import shutil
import signal
import sys
from concurrent.futures import ThreadPoolExecutor
from itertools import groupby
from pathlib import Path
from typing import Callable

from faults import processes
from faults.commands import path_with_us
from faults.job import JOBS, Job
from faults.subject import arguments
from faults.trial import Outcome, Trial, draw
from faults.workshop import Workshop, alone

SHARED = 40  # trials of a shared job at most: its start is paid once
TOGETHER = 12  # trials with jobs of their own that one thread runs before the next look at what is left to do
SWEEP_SECONDS = 120.0


def run_trials(output: Path, numbers, seed: int, *, jobs: int = 2, pythons=(),
               say: Callable[[str], None] = print) -> list[Outcome]:
    """Run the trials with these numbers; return their outcomes, in order. Local.

    output: directory in which they work.  pythons: interpreters beside this one, which take turns with it.
    Raises RuntimeError where an honest training fails, LaunchError where none can be started.
    """
    done: dict[Trial, Outcome] = {}

    def tell(outcome):
        if not JOBS.ended:  # what the end of the experiment made of a trial is no outcome
            done[outcome.trial.number] = outcome
            faults = f"  FAILED: {', '.join(outcome.faults)}" if outcome.faults else ""
            say(f"{outcome.trial.name}: {outcome.end}, {outcome.seconds:.1f} s{faults}")

    workshop = Workshop(output / f"work-{seed}", [sys.executable, *pythons])
    previous = signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        workshop.open()
        with ThreadPoolExecutor(jobs) as pool:
            trials = [draw(seed, number) for number in numbers]
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
    return after_next_start([done[number] for number in numbers], output / "next-start")


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
        with Job(argv, path_with_us(os.environ), place) as job:
            job.wait_until_gone(SWEEP_SECONDS)
        shutil.rmtree(place)
    remain = processes.nobodys(names)
    for outcome in outcomes:  # of two trials at the same time the first is blamed
        outcome.faults += [f"leftover: /dev/shm/{name}" for name in sorted(remain & set(outcome.shared))[:1]]
        remain -= set(outcome.shared)
    return outcomes
