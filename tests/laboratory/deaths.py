"""Kill ranks of `train --survive` in drawn ways, and count: each training must end with the undisturbed bits.

    make test-deaths                                                  200 trials
    PYTHONPATH=tests/laboratory:tests/training python -m deaths --only 17      repeat one

A trial is drawn from (seed, number): ranks, options, and which ranks die when: so many seconds after a step has begun,
or when they next come to a place in the code (a pull, a push, an allreduce, a backup, a commit, a recovery, a
checkpoint). Some ranks are stopped instead: for a while, too long, or for ever. With --cut PART nobody dies in this
part of the trials: the ranks are on emulated machines, and seconds after the start the cable of one is cut.

Right is only a trial that ends with the undisturbed bits. A job that does not start is started again.
"""

import argparse
import os
import random
import re
import shlex
import subprocess
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from refimpl.experiments.cluster import ClusterError, run_on_cluster
from refimpl.experiments.cluster.description import parse_cut
from refimpl.transport.launch import launch, runtime

ROOT, STEPS, TIMEOUT, HUNG = Path(__file__).parents[2], 6, 15, 240
TRAIN = ["-m", "refimpl", "train", "lm", "--preset", "tiny", "--steps", str(STEPS), "--heldout", "200"]
ON_MESH = ["-m", "refimpl", "train", "vgg", "--preset", "tiny", "--steps", str(STEPS), "--heldout", "100",
           "--microbatches", "12", "--microbatch-size", "4"]
MESHES = {2: "1x2", 4: "2x2"}
"""Of so many ranks; of others: auto."""
PLACES = ("refimpl.server.rows:RowServer.pulling", "refimpl.server.rows:RowServer.push",
          "refimpl.collectives.running.runner:ScheduleRunner.begin", "refimpl.training.survival.backup:Backups.send",
          "refimpl.training.survival.backup:Backups.post",
          "refimpl.training.survival.backup:Backups.commit", "refimpl.training.survival.memory:Memory.gather",
          "refimpl.training.survival.backup:Backups.begin", "refimpl.training.session:Session._save")
WAYS = (["--architecture", "hybrid"], ["--architecture", "ps"], ["--architecture", "allreduce"], ["--hot-rows", "20"],
        ["--shard-optimizer"], ["--optimizer", "adam"], ["--architecture", "auto"],
        ["--hot-rows", "auto", "--balance", "popularity"], ["--mesh"])
STOPPED, STOPS = 0.25, (1, 2 * TIMEOUT, 0)
"""How many of the deaths are stops, and for how many seconds; 0: for ever."""
LONG = ["--steps", "400"]
"""A training long enough for a cable to be cut in it."""
STARTS = 3
"""How often a job is started whose ranks do not come together."""
NO_START = ("The PMIx server's listener thread failed to start", "for the other ranks in MPI_Init")
RIGHT, NOT_STARTED, IN_WORDS, FAILED = "the undisturbed bits", "did not start", "ended in words, without a result", "failed"
WORDS = ("gave no sign of life", "before the training began")
"""Of a job whose ranks do not come so far on busy cores: it does not claim success, but it has no result, either."""
HEARTBEATS = {"OMPI_MCA_mpi_ft_detector_timeout": str(1.25 * TIMEOUT), "OMPI_MCA_mpi_ft_detector_period": "0.75"}
PATHS = {"PYTHONPATH": os.pathsep.join(map(str, (ROOT, ROOT / "tests" / "training")))}


class Trial(NamedTuple):
    """deaths: "RANK@STEP@PLACE ...", see ``dying``.  cut: "MACHINE@SECONDS" on as many machines as ranks, or ""."""

    number: int
    ranks: int
    options: list[str]
    deaths: str
    cut: str = ""


def draw(seed: int, number: int, cut: float = 0.0) -> Trial:
    """Return the trial of a number. cut: the part of the trials in which a cable is cut. Local."""
    dice = random.Random(f"{seed} {number}")
    ranks = dice.randint(2, 5)
    way = dice.choice(WAYS)
    options = way + [MESHES.get(ranks, "auto")] * (way == ["--mesh"]) + ["--backup-every", str(dice.choice((1, 1, 2, 4)))]
    options += ["--overlap"] * (dice.random() < 0.4)
    if dice.random() < 0.3:
        options += ["--checkpoint-every", str(dice.randint(1, 3))]
    dead = dice.sample(range(ranks), dice.randint(1, min(3, ranks - 1)))
    step = dice.randint(1, STEPS)
    deaths = []
    for rank in dead:
        step = min(STEPS, step + dice.choice((0, 0, 1, 2)))
        place = dice.choice(PLACES) if dice.random() < 0.6 else f"{dice.uniform(0, 0.05):.3f}"
        deaths.append(f"{rank}@{step}@{place}" + f"@{dice.choice(STOPS)}" * (dice.random() < STOPPED))
    if dice.random() < cut:
        return Trial(number, ranks, [*options, *LONG], "", f"{dice.randrange(ranks)}@{dice.uniform(15, 35):.1f}")
    return Trial(number, ranks, options, " ".join(deaths))


def make(trial: Trial, expected: dict) -> tuple[str, str, float]:
    """Do a trial; return (what came of it, what was said, seconds). expected: kind -> hashes. Local."""
    began, found = time.monotonic(), ""
    for _ in range(STARTS):
        with tempfile.TemporaryDirectory() as folder:
            output = ["--output", f"{folder}/run"] if "--checkpoint-every" in trial.options else ["--no-output"]
            try:
                job = run(trial, [*model_of(trial), "--survive", "--timeout", str(TIMEOUT), *trial.options, *output])
            except ClusterError as missing:
                return NOT_STARTED, f"no emulated machines: {missing}", 0.0
            except subprocess.TimeoutExpired as hung:
                return FAILED, f"still running after {HUNG} s\n{hung.output}\n{hung.stderr}", time.monotonic() - began
        found = judged(trial, job.returncode, job.stdout, job.stderr, expected[kind_of(trial)])
        if found != NOT_STARTED:
            break
    return found, f"status {job.returncode}\n{job.stdout}{job.stderr}", time.monotonic() - began


def judged(trial: Trial, status: int, printed: str, errors: str, expected: list) -> str:
    """Return what came of a job that has ended. Only the undisturbed bits are right. Local.

    Of a cut network the side that ends has a status of its own.
    """
    found = re.findall(r"sha256 (\w+)", printed)
    if found:
        return RIGHT if found == expected and (trial.cut or not status) else FAILED
    if any(words in errors for words in NO_START):
        return NOT_STARTED
    return IN_WORDS if any(words in errors for words in WORDS) else FAILED


def model_of(trial: Trial) -> list[str]:
    """Return what is trained. Local."""
    return ON_MESH if "--mesh" in trial.options else TRAIN


def kind_of(trial: Trial) -> tuple[bool, bool, bool]:
    """Return what the undisturbed bits depend on: whether it is on a mesh, with Adam, LONG. Local."""
    return "--mesh" in trial.options, "adam" in trial.options, bool(trial.cut)


def run(trial: Trial, arguments):
    """Run the ranks of a trial; return what came of them. Local; raises TimeoutExpired, ClusterError."""
    if trial.cut:
        return run_on_cluster(trial.ranks, 1, "1gbit", arguments, HUNG, True, PATHS | HEARTBEATS,
                              (parse_cut(trial.cut),))
    return launch(trial.ranks, arguments, timeout=HUNG, capture=True, survive=True, cwd=ROOT,
                  environment=PATHS | {"REFIMPL_WATCH": "dying:Dying", "REFIMPL_DIE": trial.deaths})


def undisturbed(trials: list[Trial]) -> dict:
    """Return kind -> the hashes of one rank to which nothing happens, for the kinds of these trials. Local.

    Before, each way of these is trained once: a rank that compiles for longer than TIMEOUT would be ended.
    """
    for way in (way for way in WAYS if any(trial.options[:len(way)] == way for trial in trials)):
        trained = [*ON_MESH, "--mesh", "auto"] if way == ["--mesh"] else [*TRAIN, *way]
        launch(3, [*trained, "--no-output"], timeout=HUNG, capture=True, cwd=ROOT)
    found = {}
    for trial in trials:
        mesh, adam, long = kind = kind_of(trial)
        if kind not in found:
            job = subprocess.run([sys.executable, *model_of(trial), "--no-output", *["--optimizer", "adam"] * adam,
                                  *LONG * long], capture_output=True, text=True, cwd=ROOT, check=True)
            found[kind] = re.findall(r"sha256 (\w+)", job.stdout)
    return found


def recovery(trainings: int) -> str:
    """Return how long 5 ranks needed, after each of 3 kills a training, beyond a step: in words. Local.

    From the kill until all that live have done the next step, less what the median step takes.
    """
    found = []
    for _ in range(trainings):
        job = launch(5, [*TRAIN, "--steps", "40", "--survive", "--no-output"], timeout=HUNG, capture=True, survive=True,
                     environment={**PATHS, "REFIMPL_WATCH": "dying:Timed",
                                  "REFIMPL_DIE": "1@10@0 4@20@0 0@30@0"}, cwd=ROOT)
        kills, steps = (sorted(float(seconds) for seconds in re.findall(rf"{what} ([\d.]+)", job.stderr))
                        for what in ("killed", "step"))
        usual = sorted(b - a for a, b in zip(steps[4::5], steps[9:45:5]))[4]
        for kill, living in zip(kills, (4, 3, 2)):
            found.append([seconds for seconds in steps if seconds > kill][living - 1] - kill - usual)
    found.sort()
    return (f"{len(found)} kills: {found[len(found) // 2]:.3f} s (median), {found[int(0.9 * len(found))]:.3f} s (90 %), "
            f"{found[-1]:.3f} s (longest) until the next step, besides that step")


def main(arguments=None) -> int:
    """Make the trials; print the count and each that failed. Return 1 if one failed. Local."""
    parser = argparse.ArgumentParser(prog="python -m deaths", description=__doc__.partition("\n")[0])
    parser.add_argument("--trials", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", type=int, action="append", metavar="NUMBER")
    parser.add_argument("--cut", type=float, default=0.0, metavar="PART")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--recovery", type=int, metavar="TRAININGS", help="instead: measure how long going on takes")
    asked = parser.parse_args(arguments)
    if runtime().flavour != "openmpi":
        print("deaths: error: ranks of MPICH do not outlive each other: use .venv-openmpi", file=sys.stderr)
        return 2
    if asked.recovery:
        print(recovery(asked.recovery))
        return 0
    trials, count = [draw(asked.seed, number, asked.cut) for number in asked.only or range(asked.trials)], Counter()
    expected = undisturbed(trials)
    with ThreadPoolExecutor(asked.jobs) as pool:
        for trial, (found, said, seconds) in zip(trials, pool.map(lambda each: make(each, expected), trials)):
            count[found] += 1
            what = trial.deaths or f"cut {trial.cut}"
            told = f"{trial.number}: {trial.ranks} ranks, {shlex.join(trial.options)}, {what}, {seconds:.1f} s"
            print(f"ok     {told}" if found == RIGHT else f"{found}: {told}\n{said}", flush=True)
    print(", ".join(f"{number} {what}" for what, number in count.items()))
    return int(count.total() > count[RIGHT])


if __name__ == "__main__":
    sys.exit(main())
