"""How much faster is training without barriers, what does its record cost, and how fast is it beside PyTorch's?

Four machines of one worker on the emulated cluster, in pairs that take turns; the language model in the paper's
proportions, its computation replayed, but for the last:

consistency-straggler   asynchronous against synchronous; the last worker computes 3 times as long
consistency             the same, all alike
consistency-record      asynchronous, its record kept, gathered and written, against owners that keep none
consistency-torch       asynchronous against PyTorch's parameter server (``peers.torch_rpc``): real computation

A row's seconds are those in which all workers together do N steps: of the first two while all are at work, of the
others over a whole training. Steps differ in size and workers in pace, so it is throughput, not a step's latency.
"""

import tempfile
from pathlib import Path

from models.registry import workloads_for
from refimpl.experiments.cells.proportions import slowdown_of
from refimpl.experiments.consistency.settings import STRAGGLER, WORKERS
from refimpl.experiments.job import RATE, measure
from refimpl.experiments.replay import Profile, measure_profile

REPLAYED, *_ = workloads_for("throughput")
RACED, *_ = workloads_for("training")
WORKS = {"consistency-straggler": 2.2, "consistency": 0.95, "consistency-record": 0.98, "consistency-torch": 1.0}
"""Work -> the ratio that it should reach: the other's seconds / asynchronous's."""
PROFILED_STEPS = 2
A_STEP = 0.25
"""Seconds, about, that a worker takes for one: how many steps fill the time asked for."""
LEAST = 8  # steps: a straggler does three of them while the others work


def run(seconds: float = 4.0, rounds: int = 5) -> dict:
    """Race, and return {"rows", "ratios", "written"}. Local; launches the ranks.

    seconds: about, of a training, of which a round has eight.  rows: a ``PairedRow`` each, with the ratio of the worst
    and the best pair.  written: the part of a training's time in which its record is gathered and written, the median.
    """
    with tempfile.TemporaryDirectory(prefix="profile") as own:
        profile = Profile(measure_profile(REPLAYED, WORKERS, PROFILED_STEPS, Path(own) / "profile"))
        wanted = {"workload": REPLAYED.to_json(), "raced": RACED.to_json(), "profile": str(Path(own) / "profile"),
                  "directory": own, "slowdown": slowdown_of(REPLAYED, RATE, profile.mean_seconds),
                  "steps": max(LEAST, round(seconds / A_STEP)), "rounds": rounds}
        found = measure("refimpl.experiments.consistency.race_ranks:main", wanted, 1, WORKERS)
    return {**found, "steps": wanted["steps"], "straggler": STRAGGLER,
            "ratios": {row["work"]: row["ratio"] for row in found["rows"] if row["peer"]}}


def describe(result: dict) -> list[str]:
    """Return lines for people: throughput of each, and the ratios pair by pair. Local."""
    lines = [f"{row['work']}: {row['name']} {row['words_per_second']:,.0f} words/s" for row in result["rows"]]
    lines.append(f"consistency-record: gathering and writing it takes {100 * result['written']:.2f} % of a training")
    return lines + [f"{row['work']}: pair by pair {row['ratios'][0]:.3f} to {row['ratios'][1]:.3f} x"
                    for row in result["rows"] if row.get("ratios")]
