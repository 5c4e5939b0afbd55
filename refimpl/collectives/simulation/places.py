"""The links that a transfer between two ranks uses, and the bytes that have left and entered each machine."""

import math
from dataclasses import dataclass

import numpy as np

from refimpl.collectives.links.graph import Links


class Places:
    """Links of cards. Machine m sends over link m, receives over M + m, copies within over 2 M + m; 3 M is no link."""

    def __init__(self, network):
        self.network, self.machines = network, len(network.machines)
        self.of = np.empty(network.ranks, np.int32)
        for number, ranks in enumerate(network.machines):
            self.of[list(ranks)] = number
        self.capacity = np.array([*network.bandwidth_out, *network.bandwidth_in, *network.memory_bandwidth, math.inf])
        self.moved = np.zeros((2, self.machines))

    def links(self, source, destination):
        """Return ((2, transfers) links, latency) of transfers between ranks."""
        out, into, many = self.of[source], self.of[destination], self.machines
        if many == self.of.size:  # no two ranks share a machine
            return np.stack((out, into + np.int32(many))), self.network.latency
        within = out == into
        return (np.stack((np.where(within, 2 * many + out, out), np.where(within, 3 * many, many + into))),
                np.where(within, self.network.latency_within, self.network.latency))

    def count(self, source, destination, size):
        """Add to the bytes that leave and enter each machine."""
        out, into = self.of[source], self.of[destination]
        for moved, machine in zip(self.moved, (out, into)):
            moved += np.bincount(machine, size * (out != into), self.machines)


class GraphPlaces(Places):
    """Links of a graph, numbered as in its list; the next number is no link. Each rank is a machine."""

    def __init__(self, network):
        self.network, self.machines = network, network.ranks
        self.of = np.arange(network.ranks, dtype=np.int32)
        self.capacity = np.array([*(float(rate) * network.unit for rate in network.links.rates.values()), math.inf])
        self.moved = np.zeros((2, self.machines))
        number = {link: i for i, link in enumerate(network.links.rates)}
        self.ways = {pair: [number[link] for link in zip(way, way[1:])] for pair, way in ways_of(network.links).items()}
        self.longest = max(map(len, self.ways.values()))

    def links(self, source, destination):
        """Return ((k, transfers) links, latency) of transfers. Raises ValueError if no link joins two of the ranks."""
        found = np.full((self.longest, len(source)), self.capacity.size - 1, np.int32)
        for at, pair in enumerate(zip(source.tolist(), destination.tolist())):
            if pair not in self.ways:
                raise ValueError(f"{self.network.links.name}: no link and no switch joins rank {pair[0]} to rank "
                                 f"{pair[1]}")
            found[:len(self.ways[pair]), at] = self.ways[pair]
        return found, self.network.latency


def ways_of(links) -> dict[tuple[int, int], tuple[int, ...]]:
    """Return (rank, rank) -> the nodes of the way between them, through switches: the shortest, of these the widest."""
    found = {}
    for start in range(links.ranks):
        ways = [((start,), math.inf)]
        for _ in range(links.switches + 1):
            longer: dict[int, tuple] = {}
            for way, width in ways:
                for (a, b), rate in links.rates.items():
                    wide = min(width, rate)
                    if a == way[-1] and b not in way and (b not in longer or wide > longer[b][1]):
                        longer[b] = (*way, b), wide
            found |= {(start, b): way for b, (way, _) in longer.items() if b < links.ranks and (start, b) not in found}
            ways = [(way, width) for b, (way, width) in longer.items() if b >= links.ranks]
    return found


@dataclass(frozen=True)
class GraphNetwork:
    """A network whose links each carry their rate times ``unit`` bytes/s. The other fields are those of ``Network``."""

    links: Links
    unit: float
    latency: float = 50e-6
    reduction: float = 4e9
    overhead: float = 0.0
    burst = 0.0

    @property
    def ranks(self) -> int:
        """The number of ranks."""
        return self.links.ranks

    @property
    def machines(self) -> tuple[tuple[int, ...], ...]:
        """The machines: one for each rank."""
        return tuple((rank,) for rank in range(self.ranks))

    @property
    def bandwidth_out(self) -> tuple[float, ...]:
        """The sum of bytes/s of the links out of each rank."""
        return tuple(float(self.links.out_of({rank})) * self.unit for rank in range(self.ranks))

    @property
    def bandwidth_in(self) -> tuple[float, ...]:
        """The sum of bytes/s of the links into each rank."""
        return tuple(float(self.links.into({rank})) * self.unit for rank in range(self.ranks))

    def places(self) -> GraphPlaces:
        """Return the links of transfers. Local."""
        return GraphPlaces(self)
