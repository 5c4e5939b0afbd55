"""Networks by name. Rates of machines' links are in GB/s; other networks name their own unit."""

import re
from fractions import Fraction
from math import gcd
from typing import Callable

from refimpl.collectives.links.graph import Links, read_links

DGX_1 = {2: "03 04 12 15 23 47 56 67", 1: "01 02 13 26 37 45 46 57"}
"""The pairs of GPUs of a DGX-1V with two NVLinks, and with one. A DGX-1P has one for each pair."""

MI250 = {4: "01 23 45 67 89 AB CD EF", 2: "04 37 8C BF", 1: "08 15 19 1A 26 29 2A 3B 46 56 57 9D AE CE DE DF"}
"""Infinity Fabric links between the 16 dies of eight MI250, dies in hexadecimal."""


def both_ways(pairs) -> dict[tuple[int, int], Fraction]:
    """Return the rates of links that are equally fast in both directions. pairs: (a, b, rate)."""
    return {link: Fraction(rate) for a, b, rate in pairs for link in ((a, b), (b, a))}


def _pairs(table, unit=1):
    return [(int(pair[0], 16), int(pair[1], 16), count * unit) for count, pairs in table.items()
            for pair in pairs.split()]


def _dgx_1v():
    return 8, 0, _pairs(DGX_1)


def _dgx_1p():
    return 8, 0, [(a, b, 1) for a, b, _ in _pairs(DGX_1)]


def _a100(machines):
    """NVSwitch at 300 GB/s a GPU; between machines 25 GB/s a GPU into one of two fabrics, even and odd."""
    ranks, links = 8 * machines, []
    for gpu in range(ranks):
        links.append((gpu, ranks + gpu // 8, 300))
        if machines > 1:
            links.append((gpu, ranks + machines + gpu % 2, 25))
    return ranks, machines + 2 * (machines > 1), links


def _mi250(machines):
    """16 dies a machine, 50 GB/s a link; between machines 16 GB/s a die into one fabric."""
    links = [(16 * m + a, 16 * m + b, rate) for m in range(machines) for a, b, rate in _pairs(MI250, 50)]
    if machines > 1:
        links += [(die, 16 * machines, 16) for die in range(16 * machines)]
    return 16 * machines, int(machines > 1), links


def _ring(n):
    return n, 0, [(i, (i + 1) % n, 1) for i in range(n if n > 2 else 1)]


def _path(n):
    return n, 0, [(i, i + 1, 1) for i in range(n - 1)]


def _cube(dimensions):
    return 1 << dimensions, 0, [(i, i | 1 << d, 1) for i in range(1 << dimensions) for d in range(dimensions)
                                if not i >> d & 1]


def _grid(rows, columns, wrap):
    links = {}
    for r in range(rows):
        for c in range(columns):
            for down, right in ((1, 0), (0, 1)):
                if wrap or r + down < rows and c + right < columns:
                    a, b = r * columns + c, (r + down) % rows * columns + (c + right) % columns
                    if a != b:
                        links[min(a, b), max(a, b)] = 1
    return rows * columns, 0, [(a, b, rate) for (a, b), rate in links.items()]


def _star(*rates):
    return len(rates), 1, [(i, len(rates), rate) for i, rate in enumerate(rates)]


def _two_levels(machines, each, inside, between):
    ranks = machines * each
    links = [(rank, ranks + rank // each, inside) for rank in range(ranks)]
    return ranks, machines + 1, links + [(ranks + m, ranks + machines, between) for m in range(machines)]


NAMED: dict[str, tuple[str, Callable, str]] = {
    "dgx-1v": ("dgx-1v", _dgx_1v, "8 V100, in NVLinks"),
    "dgx-1p": ("dgx-1p", _dgx_1p, "8 P100, in NVLinks"),
    "a100-M": (r"a100-(\d+)", _a100, "M machines of 8 A100, GB/s"),
    "mi250-M": (r"mi250-(\d+)", _mi250, "M machines of 8 MI250, which are 16 dies, GB/s"),
    "ring-N": (r"ring-(\d+)", _ring, "N ranks in a ring"),
    "path-N": (r"path-(\d+)", _path, "N ranks in a row"),
    "cube-D": (r"cube-(\d+)", _cube, "a cube of D dimensions"),
    "mesh-RxC": (r"mesh-(\d+)x(\d+)", lambda r, c: _grid(r, c, False), "R rows of C ranks"),
    "torus-RxC": (r"torus-(\d+)x(\d+)", lambda r, c: _grid(r, c, True), "the same, ends joined"),
    "levels-MxExIxB": (r"levels-(\d+)x(\d+)x(\d+)x(\d+)", _two_levels,
                       "M machines of E ranks, rates I inside and B between"),
    "star-A,B,...": (r"star-([\d.,]+)", _star, "a switch and cards of rates A, B, ..."),
}
"""Name -> (its pattern, the function that returns ranks, switches and links, description)."""


def star_of(rates) -> str:
    """Return the name of a star of cards with these rates, in eighths of the fastest, because measurements vary."""
    eighths = [max(1, round(8 * rate / max(rates))) for rate in rates]
    return "star-" + ",".join(str(parts // gcd(*eighths)) for parts in eighths)


def named_links(name: str) -> Links:
    """Return the network with a name in NAMED or in a JSON file; NAME:0,1,4 has only these ranks. Raises ValueError."""
    whole, colon, chosen = name.partition(":")
    if colon:
        if not re.fullmatch(r"\d+(,\d+)*", chosen):
            raise ValueError(f"{name}: give ranks after the colon, as in dgx-1v:0,1,4")
        return named_links(whole).only([int(rank) for rank in chosen.split(",")])
    if name.endswith(".json"):
        return read_links(name)
    for pattern, make, _ in NAMED.values():
        if found := re.fullmatch(pattern, name):
            numbers = [number for group in found.groups() for number in group.split(",")]
            if not all(re.fullmatch(r"\d+(\.\d+)?", number) for number in numbers):
                break
            ranks, switches, links = make(*(Fraction(n) if make is _star else int(n) for n in numbers))
            return Links(name, ranks, switches, both_ways(links))
    known = ", ".join(f"{shown} ({what})" for shown, (*_, what) in NAMED.items())
    raise ValueError(f"there is no network {name}; there are {known}")
