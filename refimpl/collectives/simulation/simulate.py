"""The time of a schedule on a network: events of a fluid model, in which messages share cards and memory fairly.

A rank enters a round when its transfers and sums of the last round are done. A transfer begins one latency after both
its ranks have entered the round. Then it flows. At any time the flows share the rates of cards and of memory, max-min
fairly (see bursts.py); rates change when a flow begins or ends. Idle cards first send a burst. After its transfers of a
round a rank adds for bytes / reduction seconds. With one rank on each machine and equal messages in a round, the time
is alpha + n beta + n gamma (Thakur, Rabenseifner & Gropp 2005); otherwise there is no such formula.

Segments run as in ``running``: several lanes at once, each a run of the whole schedule. Messages between two ranks
follow each other, as on a connection, and a rank adds up one segment at a time. When the network is full, each segment
takes as long as the one before. So only a part of very many segments is simulated.
"""

import math
from dataclasses import dataclass

import numpy as np

from refimpl.collectives.running.segments import lanes_of
from refimpl.collectives.schedule import Schedule
from refimpl.collectives.simulation.bursts import EQUAL, Bursts
from refimpl.collectives.simulation.columns import ColumnSchedule, columns_of
from refimpl.collectives.simulation.lanes import Lane, RoundSegment
from refimpl.collectives.simulation.network import Network
from refimpl.collectives.simulation.places import GraphNetwork, Places

FEW, MANY, SIMULATED = 2, 4, 8
"""Segments in a lane. SIMULATED: the most that are simulated; more would take minutes at 48 ranks."""


@dataclass(frozen=True)
class Simulation:
    """The prediction. seconds: until the last rank is done.

    finished: (ranks,) seconds.  bytes_out, bytes_in: (machines,) bytes between machines; in a graph each rank is one.
    busiest: the machine whose card has the most work for its speed.  utilisation: the fraction of the time that this
    takes at full speed, above 1 if bursts passed; 0 with one machine.
    """

    seconds: float
    finished: np.ndarray
    bytes_out: np.ndarray
    bytes_in: np.ndarray
    busiest: int
    utilisation: float


def simulate(schedule: Schedule | ColumnSchedule, network: Network | GraphNetwork, elements: int, itemsize: int,
             segments: int = 1) -> Simulation:
    """Predict a schedule's time for a vector of ``elements`` of ``itemsize`` bytes. Local.

    segments: the number of pieces of a chunk (see ``segments_of``); with 1, rounds do not overlap.
    Raises ValueError if the network has other ranks.
    """
    table = columns_of(schedule)
    if table.ranks != network.ranks:
        raise ValueError(f"simulate: {table.name} is for {table.ranks} ranks, the network has {network.ranks}")
    if segments < 1 or elements < 0:
        raise ValueError(f"simulate: {segments} segments, {elements} elements; needed: at least 1, at least 0")
    bounds, places, finished = table.bounds(elements), network.places(), np.zeros(network.ranks)
    rounds = table.rounds if segments == 1 else list(table.rounds)
    busy_until = np.zeros(network.ranks)
    lanes = [Lane(_steps(rounds, places, bounds, itemsize, range(lane, segments, table.lanes), segments),
                  network.overhead, busy_until, finished) for lane in range(min(table.lanes, segments))]
    _run(lanes, places)
    busy = np.maximum(places.moved[0] / network.bandwidth_out, places.moved[1] / network.bandwidth_in)
    seconds, busiest = float(finished.max()), int(busy.argmax())
    return Simulation(seconds, finished, places.moved[0].astype(np.int64), places.moved[1].astype(np.int64),
                      busiest, float(busy[busiest] / seconds) if seconds else 0.0)


def seconds_of(schedule: Schedule | ColumnSchedule, network: Network | GraphNetwork, elements: int, itemsize: int,
               segments: int) -> float:
    """Return ``simulate``'s seconds. Beyond SIMULATED segments they are extrapolated from FEW and MANY. Local.

    seconds of S segments = seconds of MANY + (S - MANY) (seconds of MANY - seconds of FEW) / (MANY - FEW)
    """
    lanes = lanes_of(schedule)
    if segments <= SIMULATED * lanes:
        return simulate(schedule, network, elements, itemsize, segments).seconds
    few, many = (simulate(schedule, network, elements * some * lanes // segments, itemsize, some * lanes).seconds
                 for some in (FEW, MANY))
    return many + (segments - MANY * lanes) * (many - few) / (MANY - FEW) / lanes


class _Flows:
    """Flows as columns (flows,): number of lane and step, bytes left, begin; rank (2, flows), link (k, flows)."""

    def __init__(self):
        self.rank = self.link = np.zeros((2, 0), np.int32)
        self.number, self.left, self.begin = np.zeros(0, np.int64), np.zeros(0), np.zeros(0)

    def add(self, number, rank, link, left, begin):
        columns = number, rank, link, left, begin
        if self.left.size:
            have = self.number, self.rank, self.link, self.left, self.begin
            columns = (np.concatenate(pair, axis=-1) for pair in zip(have, columns))
        self.number, self.rank, self.link, self.left, self.begin = columns

    def take(self, which):
        """Remove and return (number, rank, link, left, begin) of the flows in the boolean array ``which``."""
        taken = self.number, self.rank, self.link, self.left, self.begin
        if which.all():
            _Flows.__init__(self)
            return taken
        keep = ~which
        self.number, self.rank, self.link, self.left, self.begin = (column[..., keep] for column in taken)
        return tuple(column[..., which] for column in taken)


def _steps(rounds, places, bounds, itemsize, of_lane, segments):
    """Yield the steps of a lane: its segments one after the other."""
    for segment in of_lane:
        for step in rounds:
            yield RoundSegment(step, places, bounds, itemsize, segment, segments)


def _take_released(lanes, waiting: _Flows):
    for index, lane in enumerate(lanes):
        for number, flows, begin in lane.released:
            step = lane.open[number]
            numbers = np.full(begin.size, number * len(lanes) + index)
            waiting.add(numbers, np.stack((step.source[flows], step.destination[flows])),
                        step.links[:, flows], step.size[flows], begin)
        lane.released.clear()


def _first_of_pairs(waiting: _Flows, flowing: _Flows, begun, ranks):
    """Return the flows that begin now: the oldest of each pair of ranks, if the pair has no flow under way."""
    some = np.flatnonzero(begun)
    some = some[np.lexsort((some, waiting.begin[some]))]
    pair = waiting.rank[0, some].astype(np.int64) * ranks + waiting.rank[1, some]
    pair, first = np.unique(pair, return_index=True)
    under_way = flowing.rank[0].astype(np.int64) * ranks + flowing.rank[1]
    begun = np.zeros_like(begun)
    begun[some[first[~np.isin(pair, under_way)]]] = True
    return begun


def _run(lanes: list[Lane], places: Places):
    """Go from event to event until no flow is left. Events: flows end, flows begin, a card's burst ends."""
    waiting, flowing, now, rates = _Flows(), _Flows(), 0.0, np.zeros(0)
    bursts = Bursts(places.network, places.capacity)
    while True:
        _take_released(lanes, waiting)
        begun = waiting.begin <= now * (1 + EQUAL)
        if len(lanes) > 1 and begun.any():
            begun = _first_of_pairs(waiting, flowing, begun, places.of.size)
        if begun.any():
            flowing.add(*waiting.take(begun))
        if begun.any() or flowing.left.size != rates.size or bursts.emptied:
            rates = bursts.share_out(flowing.link)
        ends = flowing.left / rates
        next_begin = waiting.begin[waiting.begin > now * (1 + EQUAL)].min(initial=math.inf)
        until = min(next_begin, now + ends.min(initial=math.inf), now + bursts.last())
        if until == math.inf:
            return
        over = ends <= (until - now) + EQUAL * until
        flowing.left = flowing.left - rates * (until - now)
        bursts.let(until - now)
        now = until
        if over.any():
            number, rank, *_ = flowing.take(over)
            for one in np.unique(number).tolist():
                lanes[one % len(lanes)].done(one // len(lanes), rank[:, number == one], now)
