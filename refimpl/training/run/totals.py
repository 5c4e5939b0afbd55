"""Sums over the steps of a session: loss, speed, bytes, seconds, α."""

import json
from collections import Counter

import numpy as np

from refimpl.transport import Communicator
from refimpl.transport.ledger import KINDS


class Totals:
    """The sums. Steps before ``counted_from`` count for bytes, but not for the speed. The constructor is local."""

    def __init__(self, comm: Communicator, counted_from: int):
        self.comm, self.counted_from = comm, counted_from
        self.bytes, self.kinds = Counter(), Counter(dict.fromkeys(KINDS, 0))  # by phase, by kind
        self.phases, self.alpha = Counter(), Counter()
        self.steps, self.timed_steps, self.examples, self.seconds, self.loss = 0, 0, 0, 0.0, float("nan")
        self.shared_memory = False
        self.losses: dict[int, float] = {}  # by worker, in a training without barriers

    def add(self, record, seconds, alpha):
        """Add a step: its metrics, its seconds on this rank, and name -> α on this rank. Local."""
        self.steps += 1
        self.alpha.update(alpha)
        self.loss, self.shared_memory = record["loss"], bool(self.comm.ledger.read_in_place)
        self.bytes.update(self.comm.ledger.by("phase"))
        self.kinds.update(self.comm.ledger.by("kind"))
        if record["step"] > self.counted_from:
            self.timed_steps += 1
            self.seconds += seconds
            self.examples += record["examples"]
            self.phases.update(record["seconds"])

    def add_stretch(self, steps: list[dict], since: float):
        """Add a part of a training without barriers. steps: metrics of all workers' steps in it. Local.

        since: seconds from the beginning; earlier steps do not count for the speed.
        """
        mine = [metrics for metrics in steps if metrics["worker"] == self.comm.rank]
        for metrics in steps:  # a rank that did no step has 0 for each variable
            self.alpha.update(metrics["alpha"] if metrics["worker"] == self.comm.rank else dict.fromkeys(
                metrics["alpha"], 0.0))
        self.losses |= {metrics["worker"]: metrics["loss"] for metrics in steps}
        self.loss = sum(self.losses.values()) / len(self.losses) if self.losses else self.loss
        dense = {phase for phase, _, kind in self.comm.ledger.sent if kind == "dense"}
        self.shared_memory = bool(dense) and dense <= self.comm.ledger.read_in_place
        self.bytes.update(self.comm.ledger.by("phase"))
        self.kinds.update(self.comm.ledger.by("kind"))
        counted = [metrics for metrics in steps if metrics["at"] > since]
        self.steps, self.timed_steps = self.steps + len(mine), self.timed_steps + len(counted) / self.comm.size
        self.examples += sum(metrics["examples"] for metrics in counted)
        self.seconds += max((metrics["at"] for metrics in counted), default=since) - since

    def add_moves(self):
        """Add what a partition search has sent after the step: rows to other owners, and times of steps. Local."""
        for phase in ("search", "repartition"):
            if count := self.comm.ledger.total("sent", phase=phase):
                self.bytes[phase] += count

    def restart_clock(self, counted_from: int):
        """Count only the steps after ``counted_from`` for the speed. Local."""
        self.counted_from, self.phases = counted_from, Counter()
        self.timed_steps, self.examples, self.seconds = 0, 0, 0.0

    def result(self) -> dict:
        """Return fields of Result; bytes per step and seconds are means over ranks, bytes are rank 0's. Collective."""
        mine = np.array([*self.kinds.values(), self.steps, self.seconds], np.float64)
        everyone = self.comm.share(mine, "result")
        mean = everyone.mean(axis=0)
        per_step = {kind: float(total) / max(1.0, mean[-2]) for kind, total in zip(self.kinds, mean)}
        speed = self.examples / float(everyone[0, -1]) if everyone[0, -1] > 0 else float("nan")
        phases = {phase: spent / max(1, self.timed_steps) for phase, spent in self.phases.items()}
        shared = self.comm.once(lambda: json.dumps({"bytes": self.bytes, "seconds": phases}))
        alpha = mean_alpha(self.comm, {name: total / max(1, self.steps) for name, total in self.alpha.items()})
        return {"loss": self.loss, "examples_per_second": speed, "sent_per_step": per_step, "alpha": alpha,
                "shared_memory": self.shared_memory, **json.loads(shared)}


def mean_alpha(comm, alpha: dict[str, float]) -> dict[str, float]:
    """Return name -> mean over all ranks, on every rank. It is for reports; its bytes are not counted. Collective."""
    if not alpha:
        return {}
    everyone = [json.loads(text) for text in comm.share_text(json.dumps(alpha))]
    return {name: float(np.mean([theirs[name] for theirs in everyone])) for name in alpha}
