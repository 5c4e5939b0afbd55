"""Where trials are made: honest trainings to compare with, and a way to run each kind of trial. Local: the parent."""

import itertools
import json
import shutil
import time
from functools import partial
from pathlib import Path

from faults import files, lies, signals
from faults.batches import run_tasks
from faults.commands import command
from faults.job import Job
from faults.judge import (answer_of, error_lines, judge_alone, judge_lie, judge_resumed,
                                              judge_shared, judge_signal)
from faults.subject import arguments
from faults.trial import RANKS, Outcome

HONEST_SECONDS = 120.0  # with what Numba compiles first
REFUSAL_SECONDS = 30.0
WORDS = 600  # characters of what was said that a report keeps
FEWER = 2  # ranks that resume


class Workshop:
    """Runs trials in a directory of its own. pythons: interpreters, used in turns. Local; safe from several threads."""

    def __init__(self, place: Path, pythons: list[str]):
        self.place, self.pythons, self.count = place, pythons, itertools.count()
        self.base = place / "base"
        self.references: dict[str, dict] = {}

    def open(self):
        """Run the honest trainings.

        Raises RuntimeError if one fails, LaunchError where a Python or its MPI is missing.
        """
        shutil.rmtree(self.place, ignore_errors=True)
        for python in self.pythons:
            command(python, RANKS, [])  # all are there
        rate = ["--rate-steps", str(files.END)]
        wanted = {
            "signals": ["--steps", str(signals.STEPS), "--no-output"],
            "base": ["--steps", str(files.BASE), *rate, "--checkpoint-every", "2", "--output", str(self.base)],
            "files": ["--steps", str(files.END), "--no-output"],
            "lies": ["--steps", str(lies.STEPS), "--no-output"]}
        for python in self.pythons:
            tasks = [task(arguments(*options, "--json")) for options in wanted.values()]
            shutil.rmtree(self.base, ignore_errors=True)
            found = run_tasks(tasks, RANKS, partial(command, python), self.new(), HONEST_SECONDS)
            for name, told in zip(wanted, found):
                answer = answer_of(told.stdouts[0])
                if answer is None or self.references.setdefault(name, answer) != answer:
                    raise RuntimeError(f"the honest training {name} failed with {python}: {told.stderrs or answer}")

    def new(self) -> Path:
        """Return the name of a directory that nobody has."""
        return self.place / f"{next(self.count)}"

    def python(self, trial) -> str:
        """Return the trial's interpreter."""
        return self.pythons[trial.what["mpi"] % len(self.pythons)]

    def run(self, trials: list, tell):
        """Run trials of one interpreter that share a job, or one trial that needs its own; tell(outcome) of each."""
        first = trials[0]
        if first.kind == "signals":
            self._signals(trials, tell)
        elif alone(first):
            for trial in trials:
                tell(self._lie_alone(trial))
        else:
            self._shared(trials, tell)

    def _shared(self, trials, tell):
        """Damaged files, and lies after which the job goes on."""
        place, tasks, judges = self.new(), [], []
        for trial in trials:
            if trial.kind == "files":
                options, names, done = files.prepare(trial.what, self.base, place / str(trial.number))
                if trial.what["file"] == "plan":
                    tasks.append(task(arguments(*options)))
                else:
                    tasks.append(task(["train", *options]))
                judges.append((self.references["files"], names, None, done))
            else:
                tasks.append(task(self._lie(trial, place), trial.what))
                judges.append((self.references["lies"], (), trial.what["rank"], ""))
        found = run_tasks(tasks, RANKS, partial(command, self.python(trials[0])), self.new(),
                          signals.SILENCE_SECONDS)
        for trial, told, (reference, names, rank, done) in zip(trials, found, judges):
            end, faults = judge_shared(told, reference, REFUSAL_SECONDS, names, rank)
            if trial.kind == "lies":
                end, faults = judge_lie(lies.LIES[trial.what["lie"]], told.lied, end, faults)
            words = f"{done}: " * bool(done) + next((line for text in told.stderrs for line in error_lines(text)),
                                                   "".join(told.stderrs)[-WORDS:])
            tell(Outcome(trial, end, faults, told.seconds, words[:WORDS], told.shared))
        shutil.rmtree(place, ignore_errors=True)

    def _lie(self, trial, place) -> list[str]:
        what = trial.what
        kept = ["--checkpoint-every", "2", "--output", str(place / f"lie-{trial.number}")]
        return arguments("--steps", str(lies.STEPS), "--timeout", f"{signals.TIMEOUT:g}", *kept,
                         *signals.travel_options(what), module="liar", model="Liar")

    def _lie_alone(self, trial) -> Outcome:
        place, what = self.new(), trial.what
        lie = lies.LIES[what["lie"]]
        argv, environment = command(self.python(trial), RANKS, ["-m", "refimpl", *self._lie(trial, place)])
        with Job(argv, environment | {"REFIMPL_FAULTS_LIE": json.dumps(what)}, place) as job:
            job.wait_for(lambda: job.marked("lie"))
            since = time.monotonic()
            ended = job.wait_until_gone(signals.SILENCE_SECONDS if lie.silent else signals.DEATH_SECONDS)
            seen = job.seen(since, ended or job.launcher.poll() is not None)
            told = job.marked("lie")
        end, faults = judge_lie(lie, told, *judge_alone(seen, self.references["lies"], what["rank"]))
        shutil.rmtree(place, ignore_errors=True)
        return Outcome(trial, end, faults, seen.seconds, _words(seen), seen.shared)

    def _signals(self, trials, tell):
        """Signals, each in a job of its own; then one job resumes from every checkpoint that they left."""
        reference, found, tasks, owners = self.references["signals"], {}, [], []
        for trial in trials:
            directory = self.new()
            argv, environment = command(self.python(trial), RANKS, [
                "-m", "refimpl", *arguments(*signals.options_of(trial.what, directory))])
            seen = signals.strike(trial.what, argv, environment, self.new(), directory)
            end, faults = judge_signal(trial.what, seen, reference)
            found[trial.number] = Outcome(trial, end, faults, seen.seconds, _words(seen), seen.shared)
            for resumed in checkpoints_apart(directory):
                tasks.append(task(["train", "--resume", str(resumed), "--json", "--architecture",
                                   trial.what["resumed"]]))
                owners.append((trial.number, resumed))
        resumed = run_tasks(tasks, FEWER, partial(command, self.python(trials[0])), self.new(),
                            signals.SILENCE_SECONDS) if tasks else []
        for (number, directory), told in zip(owners, resumed):
            if faults := judge_resumed(told, reference):
                found[number].faults += faults
                found[number].words = f"resumed: {(''.join(told.stderrs) or told.stdouts[0])[-WORDS:]}"
            if parts := [*directory.glob(".*")]:
                found[number].faults.append(f"leftover: {parts[0].name} after a resume")
        for outcome in found.values():
            tell(outcome)


def alone(trial) -> bool:
    """Return whether a trial needs a job of its own."""
    return trial.kind == "signals" or trial.kind == "lies" and lies.LIES[trial.what["lie"]].alone


def task(command_line: list[str], lie: dict | None = None) -> dict:
    """Return a task of a shared job."""
    return {"arguments": command_line, "environment": {"REFIMPL_FAULTS_LIE": json.dumps(lie)} if lie else {}}


def checkpoints_apart(directory: Path) -> list[Path]:
    """Return directories with one checkpoint each as their newest: the run's own, and copies with the older ones."""
    steps = sorted(int(path.stem.rpartition("-")[2]) for path in directory.glob("checkpoint-*.json"))
    found = []
    for older in steps[:-1]:
        copy = directory.with_name(f"{directory.name}-{older}")
        shutil.copytree(directory, copy)
        for newer in steps[steps.index(older) + 1:]:
            (copy / f"checkpoint-{newer}.json").unlink()
        found.append(copy)
    return found + [directory] * bool(steps)


def _words(seen) -> str:
    said, left = error_lines(seen.stderr), f" [left: {', '.join(seen.left)}]" if seen.left else ""
    return (said[0] if said else (seen.stderr or seen.stdout)[-WORDS:])[:WORDS] + left
