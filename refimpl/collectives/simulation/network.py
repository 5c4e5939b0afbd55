"""A network as numbers: the ranks of each machine, latency, and the speeds of cards, memory and sums."""

import math
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from refimpl.collectives.simulation.places import Places
from refimpl.json_file import MOST_BYTES, parse_json, read_plain, shaped
from refimpl.transport.machines import Machines
from refimpl.words import counted

FORMAT = 3
"""The version of the JSON form. Others are refused."""

_OF_A_MACHINE = ("bandwidth_out", "bandwidth_in", "memory_bandwidth")
_TIMES = ("latency", "latency_within", "overhead")


@dataclass(frozen=True)
class Network:
    """A cluster for ``simulate``: the alpha-beta-gamma model of Thakur et al. (2005), with shared cards.

    machines: the ranks of each machine.  A speed is one number for all machines, or a tuple with one for each.
    latency, latency_within: seconds until a message's first byte arrives, between machines and within one (alpha).
    bandwidth_out, bandwidth_in: bytes/s that leave and enter a machine's card, shared by its ranks (1 / beta).
    memory_bandwidth: bytes/s of all messages within a machine, shared by its ranks.
    reduction: bytes/s of one operand that a rank adds to another (1 / gamma); math.inf if sums take no time.
    overhead: seconds of a rank's work for each message that it sends or receives, before the round's messages are sent.
    burst: bytes that an idle card sends, and receives, at once (the size of its token bucket).
    links: bytes/s from each machine to each other, measured while other pairs exchange messages; (): not measured.

    Local. Raises ValueError for invalid numbers.
    """

    machines: Machines
    latency: float
    bandwidth_out: float | tuple[float, ...]
    bandwidth_in: float | tuple[float, ...]
    latency_within: float = 1e-6
    memory_bandwidth: float | tuple[float, ...] = 5e9
    reduction: float = 4e9
    overhead: float = 0.0
    burst: float = 0.0
    links: tuple[tuple[float, ...], ...] = ()

    def __post_init__(self):
        machines = tuple(tuple(int(rank) for rank in ranks) for ranks in self.machines)
        ranks = sorted(rank for group in machines for rank in group)
        if not ranks or ranks != list(range(len(ranks))) or not all(machines):
            raise ValueError(f"network: machines must hold each of the ranks 0 to N - 1 once; given {machines}")
        object.__setattr__(self, "machines", machines)
        for name in _OF_A_MACHINE:
            given = getattr(self, name)
            speeds = tuple(map(float, given)) if isinstance(given, tuple | list) else (float(given),) * len(machines)
            if len(speeds) != len(machines):
                raise ValueError(f"network: {name} has {len(speeds)} numbers for {len(machines)} machines")
            object.__setattr__(self, name, speeds)
            self._check(name, speeds, lambda x: 0 < x < math.inf, "positive, finite bytes/s")
        self._check("reduction", (self.reduction,), lambda x: x > 0, "positive bytes/s")
        for name in _TIMES:
            self._check(name, (getattr(self, name),), lambda x: 0 <= x < math.inf, "seconds, zero or more")
        if self.links and [len(row) for row in self.links] != [len(machines)] * len(machines):
            raise ValueError(f"network: links has no row and column for each of {len(machines)} machines")
        self._check("burst", (self.burst,), lambda x: 0 <= x < math.inf, "bytes, zero or more")

    def _check(self, name, numbers, holds, what):
        if wrong := [x for x in numbers if not holds(x)]:
            raise ValueError(f"network: {name} must be {what}, not {wrong[0]}")

    @property
    def ranks(self) -> int:
        """The number of ranks on all machines."""
        return sum(map(len, self.machines))

    def places(self) -> Places:
        """Return the links of transfers. Local."""
        return Places(self)

    def to_dict(self) -> dict:
        """Return plain data for JSON; infinite reduction is null. Local."""
        record = asdict(self)
        return {"format": FORMAT, **record, "reduction": None if self.reduction == math.inf else self.reduction}

    @classmethod
    def from_dict(cls, value) -> "Network":
        """Return the network that ``to_dict`` wrote. Raises ValueError for anything else. Local."""
        try:
            value = dict(shaped(value, dict[str, Any]))
            if (version := value.pop("format", None)) != FORMAT:
                raise ValueError(f"format {str(version)[:20]} is not {FORMAT}")
            if missing := {field.name for field in fields(cls)} - set(value):
                raise ValueError(f"{', '.join(sorted(missing))} missing")
            return shaped({**value, "reduction": math.inf if value["reduction"] is None else value["reduction"]}, cls)
        except ValueError as error:
            raise ValueError(f"network: {error}; remove the file to measure again") from error


def load_network(path: Path, machines: Machines) -> Network:
    """Return the network in a JSON file. Raises ValueError if it is invalid or of other machines, OSError. Local."""
    try:
        network = Network.from_dict(parse_json(read_plain(path, MOST_BYTES), object))
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error
    if network.machines != tuple(map(tuple, machines)):
        raise ValueError(f"{path}: measured on {_count(network.machines)}, now there are {_count(machines)}; "
                         "remove the file to measure again")
    return network


def _count(machines) -> str:
    sizes = ", ".join(str(len(ranks)) for ranks in machines)
    return f"{counted(sum(map(len, machines)), 'rank')} on {counted(len(machines), 'machine')} (of {sizes})"
