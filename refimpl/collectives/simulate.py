"""How long a schedule takes on a network: events of a fluid model, in which messages share cards and memory fairly.

A rank enters a round when its transfers and sums of the round before are done. A transfer begins one latency after
both its ranks have entered the round, then flows. At any moment the flows of a machine share what its card sends and
takes in, and those within a machine its memory, max-min fairly (see fair.py); whenever one ends or begins the rates
change. After its transfers of a round a rank adds: bytes / reduction seconds. On an idle network with one rank a
machine this is alpha + n beta + n gamma a round (Thakur, Rabenseifner & Gropp 2005), without it the formulas end.
"""

import math
from dataclasses import dataclass

import numpy as np

from refimpl.collectives.columns import ColumnSchedule, Columns, columns_of
from refimpl.collectives.fair import EQUAL, fair_rates
from refimpl.collectives.network import Network
from refimpl.collectives.schedule import Schedule


@dataclass(frozen=True)
class Simulation:
    """What was predicted. seconds: until the last rank is done.

    finished: (ranks,) seconds.  bytes_out, bytes_in: (machines,) bytes between machines.  busiest: the machine whose card
    has most to do for its speed.  utilisation: what part of the time that takes at full speed (0 with one machine).
    """

    seconds: float
    finished: np.ndarray
    bytes_out: np.ndarray
    bytes_in: np.ndarray
    busiest: int
    utilisation: float


def simulate(schedule: Schedule | ColumnSchedule, network: Network, elements: int, itemsize: int,
             segments: int = 1) -> Simulation:
    """Predict a schedule's time for a vector of ``elements`` of ``itemsize`` bytes. Local.

    segments: each chunk is cut into so many; a rank transfers one while it adds up the one before, in the same round.
    Raises ValueError if the schedule is for other ranks than the network has.
    """
    table = columns_of(schedule) if isinstance(schedule, Schedule) else schedule
    if table.ranks != network.ranks:
        raise ValueError(f"simulate: {table.name} is for {table.ranks} ranks, the network has {network.ranks}")
    if segments < 1 or elements < 0:
        raise ValueError(f"simulate: {segments} segments, {elements} elements; needed: at least 1, at least 0")
    bounds = np.arange(table.chunks + 1, dtype=np.int64) * elements // table.chunks
    places = _Places(network)
    steps = (_Step(step, places, bounds, itemsize, segment, segments)
             for step in table.rounds for segment in range(segments))
    ranks = _Ranks(network, places, steps, segments)
    _run(ranks, places)
    busy = np.maximum(places.moved[0] / network.bandwidth_out, places.moved[1] / network.bandwidth_in)
    seconds, busiest = float(ranks.finished.max()), int(busy.argmax())
    return Simulation(seconds, ranks.finished, places.moved[0].astype(np.int64), places.moved[1].astype(np.int64),
                      busiest, float(busy[busiest] / seconds) if seconds else 0.0)


class _Places:
    """The links: machine m sends over link m, takes in over M + m, moves bytes within over 2 M + m; 3 M is no link."""

    def __init__(self, network: Network):
        self.network, self.machines = network, len(network.machines)
        self.of = np.empty(network.ranks, np.int32)
        for number, ranks in enumerate(network.machines):
            self.of[list(ranks)] = number
        self.capacity = np.array([*network.bandwidth_out, *network.bandwidth_in, *network.memory_bandwidth, math.inf])
        self.moved = np.zeros((2, self.machines))

    def links(self, source, destination):
        """Return (first, second, latency) of transfers between ranks."""
        out, into, many = self.of[source], self.of[destination], self.machines
        if many == self.of.size:  # no two ranks share a machine
            return out, into + np.int32(many), self.network.latency
        within = out == into
        return (np.where(within, 2 * many + out, out), np.where(within, 3 * many, many + into),
                np.where(within, self.network.latency_within, self.network.latency))

    def count(self, first, second, size):
        """Add to the bytes that leave and enter each machine."""
        self.moved[0] += np.bincount(first, size, 3 * self.machines)[:self.machines]
        self.moved[1] += np.bincount(second, size, 3 * self.machines)[self.machines:2 * self.machines]


class _Step:
    """One segment of one round: its flows, and how far each rank has come with it."""

    def __init__(self, columns: Columns, places: _Places, bounds, itemsize, segment, segments):
        def size_of(start, stop):
            length = bounds[stop] - bounds[start]
            return ((segment + 1) * length // segments - segment * length // segments) * float(itemsize)

        self.size = size_of(columns.start, columns.stop)
        self.source, self.destination = columns.source, columns.destination
        if not self.size.all():  # nothing is sent for an empty chunk
            some = self.size > 0
            self.size, self.source, self.destination = self.size[some], self.source[some], self.destination[some]
        ranks = places.of.size
        self.first, self.second, self.latency = places.links(self.source, self.destination)
        places.count(self.first, self.second, self.size)
        self.outstanding = np.bincount(self.source, minlength=ranks) + np.bincount(self.destination, minlength=ranks)
        added = size_of(columns.add_start, columns.add_stop) * columns.times
        self.adding = np.bincount(columns.adder, added, ranks) / places.network.reduction
        self.entered = np.full(ranks, math.inf)
        self.pending = None  # flows that wait for a rank; None: all
        self.left = 0

    def released(self):
        """Return (flows, begin): the flows whose ranks have both entered by now, each once, and when they flow."""
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


_NONE = np.zeros(0, np.int64)


class _Ranks:
    """Where each rank is: it goes through the steps in order, its transfers one step at a time, its sums behind them."""

    def __init__(self, network: Network, places: _Places, steps, segments: int):
        count = network.ranks
        self.overhead, self.segments, self.steps = network.overhead, segments, steps
        self.open: dict[int, _Step | None] = {}
        self.made = 0
        self.waiting: list[tuple] = []  # (step number, flows, begin) that were released
        self.adding_until = np.zeros(count)
        self.summed = np.zeros((segments, count))  # when the last round of each segment was done
        self.finished = np.zeros(count)
        self._enter(np.arange(count), np.zeros(count), 0)

    def step(self, number: int) -> _Step | None:
        """Return a step that some rank has not left; None behind the last."""
        while number >= self.made:
            self.open[self.made] = next(self.steps, None)
            self.made += 1
        return self.open[number]

    def done(self, number: int, ended, now: float):
        """Note that transfers of a step end now. ended: (2, transfers), their sources and destinations."""
        step, (sources, destinations) = self.step(number), ended
        count = np.bincount(sources, minlength=step.entered.size)
        count += np.bincount(destinations, minlength=step.entered.size)
        step.outstanding -= count
        ranks = np.flatnonzero((count > 0) & (step.outstanding == 0))
        if ranks.size:
            self._leave(ranks, np.full(ranks.size, now), number)

    def _enter(self, ranks, when, number):
        while ranks.size:
            step = self.step(number)
            if step is None:
                self.finished[ranks] = np.maximum(when, self.adding_until[ranks])
                return
            messages = step.outstanding[ranks]
            when = when + self.overhead * messages if self.overhead else when
            step.entered[ranks] = when
            if messages.any():
                flows, begin = step.released()
                if begin.size:
                    self.waiting.append((number, flows, begin))
            idle = messages == 0
            if not idle.any():
                return
            ranks, when = self._after(ranks[idle], when[idle], number)
            number += 1

    def _leave(self, ranks, when, number):
        self._enter(*self._after(ranks, when, number), number + 1)

    def _after(self, ranks, when, number):
        """Return (ranks, when each can enter the next step), its transfers of this one over."""
        step = self.open[number]
        adding = step.adding[ranks]
        until = np.where(adding > 0, np.maximum(when, self.adding_until[ranks]) + adding, when)
        self.adding_until[ranks] = np.maximum(self.adding_until[ranks], until)
        self.summed[number % self.segments, ranks] = until
        step.left += ranks.size
        if step.left == step.entered.size:
            del self.open[number]
        return ranks, np.maximum(when, self.summed[(number + 1) % self.segments, ranks])


class _Flows:
    """A set of flows as columns. number: of their step; rank, link: (2, flows) int; when: their begin, or bytes left."""

    def __init__(self):
        self.rank = self.link = np.zeros((2, 0), np.int32)
        self.number = np.zeros(0, np.int32)
        self.left = self.begin = np.zeros(0)

    def add(self, number, rank, link, left, begin):
        if self.number.size == 0:
            self.number, self.rank, self.link, self.left, self.begin = number, rank, link, left, begin
            return
        self.number = np.concatenate((self.number, number))
        self.rank, self.link = np.hstack((self.rank, rank)), np.hstack((self.link, link))
        self.left, self.begin = np.concatenate((self.left, left)), np.concatenate((self.begin, begin))

    def take(self, which):
        """Remove and return (number, rank, link, left, begin) of the flows in the boolean array ``which``."""
        taken = self.number, self.rank, self.link, self.left, self.begin
        if which.all():
            _Flows.__init__(self)
            return taken
        keep = ~which
        self.number, self.rank, self.link, self.left, self.begin = (column[..., keep] for column in taken)
        return tuple(column[..., which] for column in taken)


def _take_released(ranks: _Ranks, waiting: _Flows):
    for number, flows, begin in ranks.waiting:
        step = ranks.open[number]
        waiting.add(np.full(begin.size, number, np.int32), np.stack((step.source[flows], step.destination[flows])),
                    np.stack((step.first[flows], step.second[flows])), step.size[flows], begin)
    ranks.waiting.clear()


def _run(ranks: _Ranks, places: _Places):
    """Go from event to event until no flow is left."""
    waiting, flowing, now, rates = _Flows(), _Flows(), 0.0, np.zeros(0)
    while True:
        _take_released(ranks, waiting)
        ends = flowing.left / rates
        first_begin = waiting.begin.min(initial=math.inf)
        first_end = now + ends.min(initial=math.inf)
        until = min(first_begin, first_end)
        if until == math.inf:
            return
        over = ends <= (until - now) + EQUAL * until
        flowing.left = flowing.left - rates * (until - now)
        now = until
        if over.any():
            number, rank, *_ = flowing.take(over)
            for step in np.unique(number):
                ranks.done(int(step), rank[:, number == step], now)
        begun = waiting.begin <= now * (1 + EQUAL)
        if begun.any():
            flowing.add(*waiting.take(begun))
        rates = fair_rates(*flowing.link, places.capacity)
