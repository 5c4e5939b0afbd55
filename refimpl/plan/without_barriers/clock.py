"""Equals plain/without_barriers/scripted_clock.py, without values: the times of all pulls and pushes.

    a worker    receives an answer (back), computes, and sends its gradients and its next pull (there)
    a card      does one transfer after the other, in the order in which they begin

The rules are those of ``refimpl.plain.without_barriers.consistencies``. They depend only on pushes and updates. Here
all owners receive these in the same order, so one owner stands for all. If messages take no time, the events are those
of the plain file.
"""

import heapq
from collections import Counter
from dataclasses import dataclass, field
from typing import Callable, NamedTuple, Sequence

import numpy as np

from refimpl.plain.without_barriers.consistencies import consistency


class TimedTransfer(NamedTuple):
    """Messages that travel together. seconds: (C,), how long they occupy each card.  latency: seconds added to this."""

    seconds: np.ndarray
    latency: float


class BarePush(NamedTuple):
    """What a consistency uses of a push. clock: the worker's step.  version: the updates when it pulled."""

    worker: int
    clock: int
    version: int


class Clocks(list):
    """The clock of each worker. Iteration gives each value once, so the minimum over many workers is found quickly."""

    def __init__(self, workers: int):
        super().__init__([0] * workers)
        self.workers_at = Counter({0: workers})

    def __iter__(self):
        return iter(self.workers_at)

    def tick(self, worker: int):
        """Count a step of a worker."""
        self.workers_at[self[worker]] -= 1
        self.workers_at += Counter()  # drops clocks that no worker has
        self[worker] += 1
        self.workers_at[self[worker]] += 1


@dataclass
class Foreseen:
    """A predicted training. events: (time, "pull" or "push", worker, clock), in order of time.

    staleness: (worker, clock) of each applied push -> the updates since its pull.
    """

    events: list[tuple[float, str, int, int]] = field(default_factory=list)
    staleness: dict[tuple[int, int], int] = field(default_factory=dict)


class Clock:
    """A training under ``rule``. steps: see ``without_barriers.consistencies``. Local; ``run`` may be called once.

    seconds: of each worker's computation: a list by worker, or a function of (worker, clock).
    there, back: the ``TimedTransfer`` of each worker; None: messages take no time. The first pulls always take none.
    clocks, version, seen: the state of an owner that a consistency uses.
    """

    def __init__(self, rule: str, workers: int, steps: int, seconds: Sequence[float] | Callable[[int, int], float],
                 there: Sequence[TimedTransfer] | None = None, back: Sequence[TimedTransfer] | None = None):
        self.consistency, self.there, self.back = consistency(rule, workers, steps), there, back
        self.seconds = seconds if callable(seconds) else lambda worker, clock: seconds[worker]
        self.clocks, self.version, self.seen = Clocks(workers), 0, [-1] * workers
        self.free = np.zeros(1)  # when each card will have finished its transfers
        self.agenda = [(0.0, worker, True) for worker in range(workers)]  # True: it has arrived; False: it leaves now
        self.waiting: list[int] = []
        self.foreseen = Foreseen()

    def run(self) -> Foreseen:
        """Return what happens until every worker has been told that the training is over."""
        while self.agenda:
            now, worker, there = heapq.heappop(self.agenda)
            if not there:
                heapq.heappush(self.agenda, (self._arrival(self.there, worker, now), worker, True))
                continue
            if self.seen[worker] >= 0:
                self._push(now, worker)
            self._pull(now, worker)
        return self.foreseen

    def _push(self, now, worker):
        push = BarePush(worker, self.clocks[worker], self.seen[worker])
        self.foreseen.events.append((now, "push", worker, push.clock))
        self.clocks.tick(worker)
        for pushes in self.consistency.arrived(self, push):
            for each in pushes:
                self.foreseen.staleness[each.worker, each.clock] = self.version - each.version
            self.version += 1

    def _pull(self, now, worker):
        self.waiting.append(worker)
        for each in list(self.waiting):
            over = self.consistency.over(self, each)
            if over or self.consistency.answers(self, each):
                self.waiting.remove(each)
                self.seen[each] = self.version
                if not over:
                    self.foreseen.events.append((now, "pull", each, self.clocks[each]))
                    ready = self._arrival(self.back, each, now) + self.seconds(each, self.clocks[each])
                    heapq.heappush(self.agenda, (ready, each, False))

    def _arrival(self, transfers, worker, now):
        """Return when a worker's transfer that begins now arrives; mark the cards as busy."""
        if transfers is None:
            return now
        seconds, latency = transfers[worker]
        self.free = np.maximum(self.free, now) + seconds
        return float(self.free[seconds > 0].max(initial=now)) + latency
