"""How much faster is training without barriers, what does its event log cost, and how fast is it beside PyTorch's?

Pairs of trainings take turns on four emulated machines of one worker. They train the language model in the paper's
proportions. Computation is replayed, except for the last pair:

consistency-straggler   asynchronous against synchronous; the last worker computes 3 times as long
consistency             the same, with equal workers
consistency-record      asynchronous, with an event log that is gathered and written, against owners without a log
consistency-torch       asynchronous against PyTorch's parameter server (``peers.torch_rpc``): real computation

A row's seconds are those in which all workers together do N steps: for the first two pairs while all work, for the
others over a whole training. Steps differ in size and workers in speed, so this is throughput, not a step's latency.
"""

import tempfile
from pathlib import Path

from models.registry import workloads_for
from refimpl.experiments.cells.proportions import slowdown_of
from refimpl.experiments.consistency import STRAGGLER, WORKERS
from refimpl.experiments.job import RATE, measure
from refimpl.experiments.replay import measure_profile

REPLAYED, *_ = workloads_for("throughput")
RACED, *_ = workloads_for("training")
WORKS = {"consistency-straggler": 2.2, "consistency": 0.95, "consistency-record": 0.98, "consistency-torch": 1.0}
"""Work -> the ratio to reach: the other's seconds / asynchronous's."""
A_STEP = 0.25
"""About the seconds of a worker's step. From this follows the number of steps."""
LEAST = 8  # steps: a straggler does three of them while the others work


def run(seconds: float = 4.0, rounds: int = 5) -> dict:
    """Time the pairs; return {"rows", "ratios", "written"}. Local; launches the ranks.

    seconds: about those of a training; a round has eight.  rows: of ``paired``, with the ratio of the worst and
    the best pair.  written: the fraction of a training in which its event log is gathered and written, the median.
    """
    with tempfile.TemporaryDirectory(prefix="profile") as own:
        profile = measure_profile(REPLAYED, WORKERS, Path(own) / "profile")
        wanted = {"workload": REPLAYED.to_json(), "raced": RACED.to_json(), "profile": str(Path(own) / "profile"),
                  "directory": own, "slowdown": slowdown_of(REPLAYED, RATE, profile.mean_seconds),
                  "steps": max(LEAST, round(seconds / A_STEP)), "rounds": rounds}
        found = measure("refimpl.experiments.consistency.race_ranks:main", wanted, 1, WORKERS)
    return {**found, "steps": wanted["steps"], "straggler": STRAGGLER,
            "ratios": {row["work"]: row["ratio"] for row in found["rows"] if row["peer"]}}


def describe(result: dict) -> list[str]:
    """Return lines of text: throughput of each, and the ratios pair by pair. Local."""
    lines = [f"{row['work']}: {row['name']} {row['words_per_second']:,.0f} words/s" for row in result["rows"]]
    lines.append(f"consistency-record: gathering and writing it takes {100 * result['written']:.2f} % of a training")
    return lines + [f"{row['work']}: pair by pair {row['ratios'][0]:.3f} to {row['ratios'][1]:.3f} x"
                    for row in result["rows"] if row.get("ratios")]
