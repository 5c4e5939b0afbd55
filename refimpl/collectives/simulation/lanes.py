"""The parts of a simulation: one segment of a round, and the lanes in which segments follow each other."""

import math

import numpy as np

from refimpl.collectives.simulation.columns import RoundColumns
from refimpl.collectives.simulation.places import Places

_NONE = np.zeros(0, np.int64)


class RoundSegment:
    """One segment of one round: its flows, and the state of each rank in it."""

    def __init__(self, columns: RoundColumns, places: Places, bounds, itemsize, segment, segments):
        def size_of(start, stop):
            length = bounds[stop] - bounds[start]
            return ((segment + 1) * length // segments - segment * length // segments) * float(itemsize)

        self.size = size_of(columns.start, columns.stop)
        self.source, self.destination = columns.source, columns.destination
        if not self.size.all():  # nothing is sent for an empty chunk
            some = self.size > 0
            self.size, self.source, self.destination = self.size[some], self.source[some], self.destination[some]
        ranks = places.of.size
        self.links, self.latency = places.links(self.source, self.destination)
        places.count(self.source, self.destination, self.size)
        self.outstanding = np.bincount(self.source, minlength=ranks) + np.bincount(self.destination, minlength=ranks)
        added = size_of(columns.add_start, columns.add_stop) * columns.times
        self.adding = np.bincount(columns.adder, added, ranks) / places.network.reduction
        self.entered = np.full(ranks, math.inf)
        self.pending = None  # flows that wait for a rank; None: all
        self.left = 0

    def released(self):
        """Return (flows, begin): the flows whose two ranks have both entered, each once, and when they begin."""
        flows = slice(None) if self.pending is None else self.pending
        begin = np.maximum(self.entered[self.source[flows]], self.entered[self.destination[flows]])
        ready = begin < math.inf
        latency = self.latency if np.isscalar(self.latency) else self.latency[flows]
        begin += latency
        if ready.all():
            self.pending = _NONE
            return flows, begin
        numbers = np.arange(self.size.size) if self.pending is None else self.pending
        self.pending = numbers[~ready]
        return numbers[ready], begin[ready]


class Lane:
    """Segments that follow each other: the place of each rank in them. Ranks do the steps in order."""

    def __init__(self, steps, overhead: float, busy_until, finished):
        """steps: iterator of RoundSegment.  busy_until, finished: (ranks,) seconds, shared by all lanes:

        until when a rank adds or posts messages, and when it has done its last work.
        """
        self.overhead, self.steps, self.busy_until, self.finished = overhead, steps, busy_until, finished
        self.open: dict[int, RoundSegment | None] = {}
        self.made = 0
        self.released: list[tuple] = []  # (step number, flows, begin) of flows that can begin
        self._enter(np.arange(finished.size), np.zeros(finished.size), 0)

    def done(self, number: int, ended, now: float):
        """Note that transfers of a step end now. ended: (2, transfers), their sources and destinations."""
        step, (sources, destinations) = self.open[number], ended
        count = np.bincount(sources, minlength=step.entered.size)
        count += np.bincount(destinations, minlength=step.entered.size)
        step.outstanding -= count
        ranks = np.flatnonzero((count > 0) & (step.outstanding == 0))
        if ranks.size:
            self._enter(ranks, self._add(ranks, np.full(ranks.size, now), number), number + 1)

    def _step(self, number: int) -> RoundSegment | None:
        """Return a step that some rank has not finished; None after the last."""
        while number >= self.made:
            self.open[self.made] = next(self.steps, None)
            self.made += 1
        return self.open[number]

    def _enter(self, ranks, when, number):
        """Let ranks enter a step, and also the next one if they have no messages in it."""
        while ranks.size:
            step = self._step(number)
            if step is None:
                self.finished[ranks] = np.maximum(self.finished[ranks], when)
                return
            messages = step.outstanding[ranks]
            if self.overhead:
                when = np.where(messages > 0, np.maximum(when, self.busy_until[ranks]) + self.overhead * messages, when)
                self.busy_until[ranks] = np.maximum(self.busy_until[ranks], when)
            step.entered[ranks] = when
            if messages.any():
                flows, begin = step.released()
                if begin.size:
                    self.released.append((number, flows, begin))
            idle = messages == 0
            ranks = ranks[idle]
            when = self._add(ranks, when[idle], number)
            number += 1

    def _add(self, ranks, when, number):
        """Return when ranks have done a step's sums after its messages: a rank adds for one lane at a time."""
        step = self.open[number]
        adding = step.adding[ranks]
        until = np.where(adding > 0, np.maximum(when, self.busy_until[ranks]) + adding, when)
        self.busy_until[ranks] = np.maximum(self.busy_until[ranks], until)
        step.left += ranks.size
        if step.left == step.entered.size:
            del self.open[number]
        return until
