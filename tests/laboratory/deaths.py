"""Kill ranks of `train --survive` in drawn ways, and count: each training must end with the undisturbed bits.

    make test-deaths                                                  200 trials
    PYTHONPATH=tests/laboratory:tests/training python -m deaths --only 17      repeat one

A trial is drawn from (seed, number): ranks, options, and which ranks die when: so many seconds after a step has begun,
or when they next come to a place in the code (a pull, a push, an allreduce, a backup, a commit, a recovery, a
checkpoint). Some ranks are stopped instead: for a while, too long, or for ever. With --cut PART nobody dies in this
part of the trials: the ranks are on emulated machines, and seconds after the start the cable of one is cut.
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
from itertools import product
from pathlib import Path
from typing import NamedTuple

from refimpl.experiments.cluster import ClusterError, run_on_cluster
from refimpl.experiments.cluster.description import parse_cut
from refimpl.transport.launch import launch, runtime

ROOT, STEPS, TIMEOUT, HUNG = Path(__file__).parents[2], 6, 15, 240
TRAIN = ["-m", "refimpl", "train", "lm", "--preset", "tiny", "--steps", str(STEPS), "--heldout", "200"]
PLACES = ("refimpl.server.rows:RowServer.pull", "refimpl.server.rows:RowServer.push",
          "refimpl.collectives.running.runner:ScheduleRunner.begin", "refimpl.training.survival.backup:Backups.send",
          "refimpl.training.survival.backup:Backups.post",
          "refimpl.training.survival.backup:Backups.commit", "refimpl.training.survival.memory:Memory.gather",
          "refimpl.training.survival.backup:Backups.begin", "refimpl.training.session:Session._save")
WAYS = (["--architecture", "hybrid"], ["--architecture", "ps"], ["--architecture", "allreduce"], ["--hot-rows", "20"],
        ["--shard-optimizer"], ["--optimizer", "adam"], ["--architecture", "auto"],
        ["--hot-rows", "auto", "--balance", "popularity"])
STOPPED, STOPS = 0.25, (1, 2 * TIMEOUT, 0)
"""How many of the deaths are stops, and for how many seconds; 0: for ever."""
LONG = ["--steps", "400"]
"""A training long enough for a cable to be cut in it."""
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
    options = dice.choice(WAYS) + ["--backup-every", str(dice.choice((1, 1, 2, 4)))]
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


def make(trial: Trial, expected: dict) -> tuple[str, float]:
    """Do a trial; return ("" or what is wrong with it, seconds). expected: of ``undisturbed``. Local."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        output = ["--output", f"{folder}/run"] if "--checkpoint-every" in trial.options else ["--no-output"]
        try:
            job = run(trial, [*TRAIN, "--survive", "--timeout", str(TIMEOUT), *trial.options, *output])
        except ClusterError as missing:
            return f"no emulated machines: {missing}", 0.0
        except subprocess.TimeoutExpired as hung:
            return f"still running after {HUNG} s\n{hung.output}\n{hung.stderr}", time.monotonic() - began
        seconds = time.monotonic() - began
    said, found = job.stdout + job.stderr, re.findall(r"sha256 (\w+)", job.stdout)
    if found and found != expected["adam" in trial.options, bool(trial.cut)]:
        wrong = "ANOTHER ANSWER"
    elif trial.cut:  # the side that ends has a status of its own, and may be ended with the job before it can say so
        wrong = "" if found else "no hash after a cut"
    else:
        wrong = "" if found and not job.returncode else f"ended with status {job.returncode} and {len(found)} hashes"
    return wrong and f"{wrong}\n{said}", seconds


def run(trial: Trial, arguments):
    """Run the ranks of a trial; return what came of them. Local; raises TimeoutExpired, ClusterError."""
    if trial.cut:
        return run_on_cluster(trial.ranks, 1, "1gbit", arguments, HUNG, True, PATHS | HEARTBEATS,
                              (parse_cut(trial.cut),))
    return launch(trial.ranks, arguments, timeout=HUNG, capture=True, survive=True, cwd=ROOT,
                  environment=PATHS | {"REFIMPL_WATCH": "dying:Dying", "REFIMPL_DIE": trial.deaths})


def undisturbed(cuts: bool = False) -> dict:
    """Return (whether Adam, whether LONG, for cuts) -> the hashes of one rank to which nothing happens. Local.

    Before, each way is trained once: a rank that compiles for longer than TIMEOUT would be ended.
    """
    found = {}
    for way in WAYS:
        launch(3, [*TRAIN, *way, "--no-output"], timeout=HUNG, capture=True, cwd=ROOT)
    for adam, long in product((False, True), (False, True)[:1 + cuts]):
        job = subprocess.run([sys.executable, *TRAIN, "--no-output", *["--optimizer", "adam"] * adam, *LONG * long],
                             capture_output=True, text=True, cwd=ROOT, check=True)
        found[adam, long] = re.findall(r"sha256 (\w+)", job.stdout)
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
    expected, count = undisturbed(asked.cut > 0), Counter()
    trials = [draw(asked.seed, number, asked.cut) for number in asked.only or range(asked.trials)]
    with ThreadPoolExecutor(asked.jobs) as pool:
        for trial, (wrong, seconds) in zip(trials, pool.map(lambda each: make(each, expected), trials)):
            count["failed" if wrong else "the undisturbed bits"] += 1
            what = trial.deaths or f"cut {trial.cut}"
            told = f"{trial.number}: {trial.ranks} ranks, {shlex.join(trial.options)}, {what}, {seconds:.1f} s"
            print(f"{'FAILED' if wrong else 'ok':6} {told}" + f"\n{wrong}" * bool(wrong), flush=True)
    print(", ".join(f"{number} {what}" for what, number in count.items()))
    return 1 if count["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
