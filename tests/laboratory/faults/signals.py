"""Signals: which, to whom, in which phase, how long after its begin; and a training that meets one."""

import signal
import time
from pathlib import Path

from faults.job import Job, Seen
from faults.trial import RANKS, draw_travel

SIGNALS = ("SIGKILL", "SIGSTOP", "SIGTERM", "SIGINT", "SIGHUP", "SIGSEGV", "SIGABRT")
TARGETS = {**{f"rank {rank}": 4 for rank in range(RANKS)}, **{f"supervisor {rank}": 1 for rank in range(RANKS)},
           "launcher": 3, "proxy": 3}
"""Whom a signal meets -> how often, in proportion."""
PHASES = {"start": 2.0, "set-up": 0.3, "steps": 0.03, "checkpoint": 0.02, "evaluation": 0.08, "end": 0.5}
"""Phase of a training -> seconds after its begin within which the signal is sent."""
STEPS, CHECKPOINT_EVERY, EVALUATE_EVERY = 40, 4, 8
TIMEOUT = 5.0  # of the ranks
DEATH_SECONDS, SILENCE_SECONDS = 30.0, TIMEOUT + 30.0  # on a machine that has much else to do


def draw(rng) -> dict:
    """Return a signal and the training that it meets. SIGKILL comes thrice as often as another."""
    phase = rng.choice(list(PHASES))
    return {"signal": rng.choices(SIGNALS, (3, 1, 1, 1, 1, 1, 1))[0],
            "target": rng.choices(list(TARGETS), TARGETS.values())[0], "phase": phase,
            "step": rng.randrange(1, STEPS - 2 * EVALUATE_EVERY), "moment": round(rng.random() * PHASES[phase], 4),
            **draw_travel(rng), "resumed": rng.choice(["hybrid", "ps"])}


def options_of(what: dict, directory: Path) -> list[str]:
    """Return the options of the training. Local."""
    return ["--steps", str(STEPS), "--checkpoint-every", str(CHECKPOINT_EVERY), "--evaluate-every",
            str(EVALUATE_EVERY), "--timeout", f"{TIMEOUT:g}", "--output", str(directory), *travel_options(what)]


def travel_options(what: dict) -> list[str]:
    """Return a trial's options of how gradients travel. Local."""
    return ["--architecture", what["architecture"], "--overlap" if what["overlap"] else "--no-overlap",
            *([] if what["shared_memory"] else ["--no-shared-memory"]), "--json"]


def bound_of(what: dict) -> float:
    """Return the seconds within which all processes of the job must have ended. Local."""
    return SILENCE_SECONDS if what["signal"] == "SIGSTOP" else DEATH_SECONDS


def strike(what: dict, argv, environment, place: Path, directory: Path) -> Seen:
    """Run the training, send the signal at its moment, and return what was seen. Local.

    place: for output.  directory: the training's.
    """
    with Job(argv, environment, place) as job:
        come = job.wait_for(lambda: _has_come(what, job, directory))
        time.sleep(what["moment"] if come else 0)
        delivered = come and job.send(signal.Signals[what["signal"]], what["target"])
        since = time.monotonic()
        ended = job.wait_until_gone(bound_of(what))
        if not ended and what["signal"] == "SIGSTOP" and job.only_stopped_are_left():
            ended = job.wait_until_gone(DEATH_SECONDS)
        seen = job.seen(since, ended or job.launcher.poll() is not None)
        seen.delivered = delivered
        return seen


def _has_come(what, job, directory) -> bool:
    """Return whether the phase has begun. Local."""
    match what["phase"]:
        case "start":
            return True
        case "set-up":
            return job.marked("setup")
        case "steps":
            return job.marked(f"step {what['step']}")
        case "checkpoint":
            return job.marked(f"step {what['step']}") and any(directory.glob(".*checkpoint*.part"))
        case "evaluation":
            return job.marked(f"step {what['step']}", "evaluate")
        case "end":
            return (directory / f"checkpoint-{STEPS}.json").exists()
    raise ValueError(f"no phase {what['phase']}")
