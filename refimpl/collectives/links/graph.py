"""A network as data: ranks, switches, and the rate of each directed link."""

import json
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from pathlib import Path

from refimpl.words import counted


@dataclass(frozen=True)
class Links:
    """Nodes 0 to ranks - 1 are ranks, the others switches. rates: (from, to) -> the largest rate of the link.

    Raises ValueError for a rate of 0 or less, an unknown node, a switch whose links in and out have different sums, and
    ranks that cannot reach each other.
    """

    name: str
    ranks: int
    switches: int
    rates: dict[tuple[int, int], Fraction]

    def __post_init__(self):
        object.__setattr__(self, "rates", {link: Fraction(rate) for link, rate in self.rates.items()})
        nodes = self.ranks + self.switches
        for (a, b), rate in self.rates.items():
            if not (0 <= a < nodes and 0 <= b < nodes) or a == b:
                raise ValueError(f"{self.name}: link {a} to {b}: give two different nodes, 0 to {nodes - 1}")
            if rate <= 0:
                raise ValueError(f"{self.name}: link {a} to {b} has rate {rate}: leave it out, or give it one above 0")
        if self.ranks < 2:
            raise ValueError(f"{self.name}: {counted(self.ranks, 'rank')}: a network has 2 ranks or more")
        for switch in range(self.ranks, nodes):
            into, out = self.into({switch}), self.out_of({switch})
            if into != out:
                raise ValueError(f"{self.name}: {into} comes into switch {switch} and {out} goes out: a switch keeps "
                                 "nothing, so both must be equal")
        for start in range(self.ranks):
            reached = self._reached(start)
            if missing := set(range(self.ranks)) - reached:
                raise ValueError(f"{self.name}: no link leads from nodes {_names(reached)} to ranks {_names(missing)}")

    @cached_property
    def symmetric(self) -> bool:
        """Whether each link has the same rate in both directions."""
        return all(self.rates.get((b, a)) == rate for (a, b), rate in self.rates.items())

    def into(self, nodes: set[int]) -> Fraction:
        """Return the sum of the rates of all links into a set of nodes."""
        return sum((rate for (a, b), rate in self.rates.items() if b in nodes and a not in nodes), Fraction(0))

    def out_of(self, nodes: set[int]) -> Fraction:
        """Return the sum of the rates of all links out of a set of nodes."""
        return sum((rate for (a, b), rate in self.rates.items() if a in nodes and b not in nodes), Fraction(0))

    def only(self, chosen: list[int]) -> "Links":
        """Return the network of some ranks: its rank i is chosen[i]. All switches stay.

        Raises ValueError for unknown or repeated ranks, or if they are not connected.
        """
        if len({*chosen}) < len(chosen) or not {*chosen} <= {*range(self.ranks)}:
            raise ValueError(f"{self.name} has ranks 0 to {self.ranks - 1}; choose some of them, each once")
        place = {old: new for new, old in enumerate([*chosen, *range(self.ranks, self.ranks + self.switches)])}
        rates = {(place[a], place[b]): rate for (a, b), rate in self.rates.items() if a in place and b in place}
        return Links(f"{self.name}:{','.join(map(str, chosen))}", len(chosen), self.switches, rates)

    def _reached(self, start):
        reached, todo = {start}, [start]
        while todo:
            node = todo.pop()
            new = {b for a, b in self.rates if a == node} - reached
            reached |= new
            todo += new
        return reached


def read_links(path) -> Links:
    """Return the network of a JSON file: {"ranks": 3, "switches": 1, "links": [[0, 3, 25], ["both", 1, 3, 12.5], ...]}.

    A link is [from, to, rate] or ["both", a, b, rate]; rates may have any unit. Local.
    Raises ValueError, which names the error, OSError if there is no such file.
    """
    path = Path(path)
    try:
        found = json.loads(path.read_text(encoding="utf-8"), parse_float=Fraction)
        ranks, switches, rates = int(found["ranks"]), int(found.get("switches", 0)), {}
        for link in found["links"]:
            both = link[0] == "both"
            a, b, rate = link[1:] if both else link
            for pair in ((a, b), (b, a)) if both else ((a, b),):
                rates[pair] = rates.get(pair, 0) + Fraction(rate)
    except (KeyError, TypeError, IndexError, ValueError) as problem:
        raise ValueError(f'{path} is no network: it should read {{"ranks": 3, "switches": 1, "links": [[0, 3, 25], '
                         f'["both", 1, 3, 12.5]]}} ({type(problem).__name__}: {problem})') from problem
    return Links(path.name, ranks, switches, rates)


def _names(nodes) -> str:
    return ", ".join(map(str, sorted(nodes)))
