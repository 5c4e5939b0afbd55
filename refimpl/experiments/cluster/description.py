"""The description of a cluster: machines, ranks, rates, and events during a run."""

import json
import math
import re
from dataclasses import asdict, dataclass

import msgspec

from refimpl.experiments.cluster.namespaces import ClusterError

UNITS = {"bit": 1, "kbit": 10**3, "mbit": 10**6, "gbit": 10**9}
FASTEST = 8 * (2**32 - 1)  # bits a second
LEAST = 0.01  # part of the rate for a link without a rate, for acknowledgements
MOST_MACHINES = 250
CARD = "eth0"  # the measured network card, as a machine sees it


@dataclass(frozen=True)
class Event:
    """At ``seconds`` after the job's start the card of ``machine`` gets ``rate`` bits a second; 0 cuts it off."""

    machine: int
    rate: int
    seconds: float


@dataclass(frozen=True)
class Cluster:
    """rates: bits/s of each machine's card, in each direction. Machine 0 has the first ranks, and so on.

    links: (a, b, bits/s from a to b, from b to a) of two machines with their own cable, which carries all messages
    between them. Cards then carry the messages of machines without such a cable.
    """

    rates: tuple[int, ...]
    ranks_per_machine: int
    events: tuple[Event, ...] = ()
    links: tuple[tuple[int, int, int, int], ...] = ()

    def __post_init__(self):
        if not 1 <= self.machines <= MOST_MACHINES or self.ranks_per_machine < 1:
            raise ClusterError(f"a cluster has 1 to {MOST_MACHINES} machines of at least 1 rank, not {self.machines} "
                               f"of {self.ranks_per_machine}")
        for event in self.events:
            if not 0 <= event.machine < self.machines:
                raise ClusterError(f"there is no machine {event.machine}: they are 0 to {self.machines - 1}")

    @property
    def machines(self) -> int:
        """The number of machines."""
        return len(self.rates)

    @property
    def ranks(self) -> int:
        """The number of ranks on all machines."""
        return self.machines * self.ranks_per_machine

    def to_json(self) -> str:
        """Return the cluster as text, an argument of the hub."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> "Cluster":
        """Read what ``to_json`` wrote."""
        return msgspec.json.decode(text, type=cls)


def machine_name(machine: int) -> str:
    """Return the host name of a machine."""
    return f"machine{machine}"


def address(machine: int) -> str:
    """Return a machine's address on the measured network."""
    return f"10.77.0.{machine + 1}"


def parse_rate(text: str | int | float) -> int:
    """Return the bits/s of "200mbit", "1.5gbit", "64kbit" or a plain number of bits. Raises ClusterError."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([kmg]?bit)?(?:/s|ps)?", str(text).strip().lower())
    rate = float(found[1]) * UNITS[found[2] or "bit"] if found else 0.0
    if not 8000 <= round(rate, 3) < math.inf:
        raise ClusterError(f"a rate is at least 8kbit, written as 200mbit, 1.5gbit or 64kbit, not {text!r}")
    return round(rate)


def rate_of_card(text: str | int | float) -> int:
    """Return bits/s as ``parse_rate`` does. Raises ClusterError also for more than a token bucket can count."""
    rate = parse_rate(text)
    if rate > FASTEST:
        raise ClusterError(f"{text}: an emulated card has at most {FASTEST // 10**9}gbit: its token bucket counts "
                           "bytes a second in 32 bits")
    return rate


def rates_of(machines: int, rates) -> tuple[int, ...]:
    """Return a rate for each machine. rates: see ``rate_of_card``, one for all or a list. Raises ClusterError."""
    if machines > MOST_MACHINES:
        raise ClusterError(f"a cluster has 1 to {MOST_MACHINES} machines, not {machines}")
    given = [rates] if isinstance(rates, (str, int, float)) else list(rates)
    if len(given) not in (1, machines):
        raise ClusterError(f"give one rate for all machines or one for each of the {machines}, not {len(given)}")
    return tuple(rate_of_card(rate) for rate in given) * (machines if len(given) == 1 else 1)


def cables_of(links, rate) -> tuple[tuple[int, int, int, int], ...]:
    """Return the cables of a network of links, see ``Cluster``. A link of rate 1 has ``rate``. Raises ClusterError."""
    if links.switches:
        raise ClusterError(f"{links.name} has switches, and cables join two machines: give cards a rate each (--rates)")
    unit = parse_rate(rate)
    pairs = sorted({(min(link), max(link)) for link in links.rates})
    return tuple((a, b, *(rate_of_card(int(links.rates.get(way, LEAST) * unit)) for way in ((a, b), (b, a))))
                 for a, b in pairs)


def parse_slow(text: str) -> Event:
    """Return the event of "MACHINE=RATE@SECONDS": the machine's card gets this rate then. Raises ClusterError."""
    found = re.fullmatch(r"(\d+)=([^@]+)@(\d+(?:\.\d+)?)s?", text)
    if not found:
        raise ClusterError(f"a change of rate is written MACHINE=RATE@SECONDS, as 2=50mbit@10, not {text!r}")
    return Event(int(found[1]), rate_of_card(found[2]), float(found[3]))


def parse_cut(text: str) -> Event:
    """Return the event of "MACHINE@SECONDS": the machine's cable is cut then. Raises ClusterError."""
    found = re.fullmatch(r"(\d+)@(\d+(?:\.\d+)?)s?", text)
    if not found:
        raise ClusterError(f"a cut is written MACHINE@SECONDS, as 2@10, not {text!r}")
    return Event(int(found[1]), 0, float(found[2]))
