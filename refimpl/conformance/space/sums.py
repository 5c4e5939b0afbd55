"""Wrong sums: of the wrong ranks, of contributions that do not belong together, or with a wrong divisor."""

from dataclasses import replace
from functools import partial

import numpy as np

from refimpl.conformance.case import Rows, numbers_of, with_numbers
from refimpl.conformance.space.by_rule import miscounts, wrong_numbers
from refimpl.conformance.space.deviation import Deviation, Impossible, Place, code_of, parametrised, words_of


@parametrised
def _of_own(change, ranks, machine, place):
    """change(ranks, the rank that gets the sum) -> ranks. Rows that are joined from all owners have no such rank."""
    if len(ranks) == 1 or place.rank not in ranks:
        raise Impossible
    return change(ranks, place.rank)


@parametrised
def _with(needed, change, ranks, machine, place):
    """change(ranks) -> ranks, in a sum of several ranks with all ranks of ``needed``."""
    if len(ranks) == 1 or not {*needed} <= {*ranks}:
        raise Impossible
    return change(ranks)


MEMBERS = (
    ("not-reduced", "each rank gets its own gradient back, divided by N: the reduction does nothing",
     _of_own(lambda ranks, rank: [rank])),
    ("rank-miscounted", "a rank gets the sum over ranks up to itself: a scan, not a reduction",
     _of_own(lambda ranks, rank: [r for r in ranks if r <= rank])),
    ("rank-miscounted", "a rank's own gradient is left out of what it gets",
     _of_own(lambda ranks, rank: [r for r in ranks if r != rank])),
    ("rank-miscounted", "a rank's own gradient is counted twice in what it gets",
     _of_own(lambda ranks, rank: [*ranks, rank])),
    ("rank-miscounted", "ranks beyond a power of two are left out",
     _with((), lambda ranks: ranks[:1 << (len(ranks).bit_length() - 1)])),
    ("rank-miscounted", "every second rank is left out", _with((), lambda ranks: ranks[::2])),
    ("rank-miscounted", "a rank gets the sum of itself and its neighbour alone",
     _of_own(lambda ranks, rank: [rank, ranks[(ranks.index(rank) + 1) % len(ranks)]])),
    ("group-ranks-as-places", "the ranks of a group are taken for places: it adds up the first ranks of the world",
     _with((), lambda ranks: list(range(len(ranks))))),
)
"""(code, words, change of ``members``)."""

DUPLICATES = (("first", "of rows that share an id on a rank, the first one counts"),
              ("mean", "rows that share an id on a rank are averaged, not added"))


class LastRankCounts:
    """Of a row that several ranks push, only the last rank's gradient counts: it overwrites those of the others."""

    reduce = np.add.reduce  # arrays are added

    @staticmethod
    def at(total, places, rows):
        """Write the rows of each rank to their places, one rank after the other."""
        total[places] = rows


def _times(factor):
    """factor(machine, place) -> the factor of the divisor, a number or an array for rows."""
    return lambda divisor, machine, place: divisor * factor(machine, place)


def _instead(divisor):
    """divisor(machine, place) -> another divisor."""
    return lambda right, machine, place: np.ones_like(right) * divisor(machine, place)


def _pushes(machine, place):
    """Return how many ranks have rows of this variable at all."""
    parts = [machine.given(Place(place.step, r, place.variable)) for r in machine.group]
    if not isinstance(parts[0], Rows):
        raise Impossible
    return max(1, sum(len(p.ids) > 0 for p in parts))


DIVISORS = (
    ("divided-again", "divided by N once more", _times(lambda m, p: len(m.group))),
    ("multiplied-by-n", "not divided by N, or multiplied by it", _times(lambda m, p: 1 / len(m.group))),
    ("group-divided-by-world", "divided by the size of the world, not by that of the group",
     _instead(lambda m, p: m.case.ranks)),
    ("doubled", "multiplied by 2", _times(lambda m, p: 1 / 2)),
    ("divided-by-pushers", "divided by the number of ranks that have rows of the variable at all", _instead(_pushes)),
    ("divided-by-holders", "divided by the number of ranks that have a gradient of the variable, not by N",
     _instead(lambda m, p: sum(ranks[p.variable.name] is not None for ranks in m.case.steps[p.step])),
     lambda case: "absent" in case.needs),
)
"""(code, words, change of a divisor, and perhaps ``concerns``)."""


def matched_by_position(parts, machine, place, mixed=False):
    """The k-th gradient of each rank, if the variable is number k on the rank that gets the sum; under its own ids.

    mixed: whether dense gradients are added to rows.
    """
    if place.rank is None or len(machine.case.variables) < 2:
        raise Impossible
    number = machine.order(place).index(place.variable.name)
    names = [machine.order(replace(place, rank=r))[number] for r in machine.group]
    if len(set(names)) == 1:
        raise Impossible
    met = [machine.given(replace(place, rank=r, variable=machine.case.variable(name)))
           for r, name in zip(machine.group, names)]
    own = machine.given(place)
    if any(numbers_of(part).shape != numbers_of(own).shape for part in met):
        raise Impossible
    if mixed != (len({type(part) for part in met}) > 1):
        raise Impossible
    return [Rows(own.ids, numbers_of(p)) for p in met] if isinstance(own, Rows) else [numbers_of(p) for p in met]


def under_own_ids(parts, machine, place):
    """Rows of all ranks, position by position, under the ids of the rank that gets the sum."""
    if place.rank is None or not isinstance(parts[0], Rows) or len({len(p.ids) for p in parts}) > 1:
        raise Impossible
    return [Rows(machine.given(place).ids, p.rows) for p in parts]


@parametrised
def _group_means(size, parts, machine, place):
    """Average over groups of neighbouring ranks, then over the groups. The last group may be smaller."""
    sizes = [min(size, len(parts) - i // size * size) for i in range(len(parts))]
    groups = sum(1 / s for s in sizes)
    return [with_numbers(p, lambda x: x.astype(np.float64) * (len(parts) / (groups * s)))
            for p, s in zip(parts, sizes)]


@parametrised
def _packed(pack, unpack, parts, machine, place):
    """Dense gradients are packed into a buffer in one layout, and unpacked in another. pack, unpack: (by name, gap).

    Each gradient begins at a multiple of ``gap`` elements. gap 0: 1, and a variable without a gradient has no place.
    """
    if place.rank is None or any(v.sparse for v in machine.case.variables) or len(machine.case.variables) < 2:
        raise Impossible

    def layout(rank, by_name, gap):
        names, found, end = machine.order(replace(place, rank=rank)), {}, 0
        for name in sorted(names) if by_name else names:
            if gap or machine.case.steps[place.step][rank][name] is not None:
                own = machine.given(replace(place, rank=rank, variable=machine.case.variable(name))).ravel()
                found[name], end = (end, own), end + -(-own.size // max(1, gap)) * max(1, gap)
        return found

    name, shape, result = place.variable.name, parts[0].shape, []
    if (first := layout(place.rank, *unpack).get(name, (None,))[0]) is None:
        return [np.zeros(shape) for _ in parts]
    for rank in machine.group:
        buffer = np.zeros(first + parts[0].size)  # the rest is not read
        for at, own in layout(rank, *pack).values():
            buffer[at:at + own.size] = own[:max(0, buffer.size - at)]
        result.append(buffer[first:].reshape(shape))
    return result


def deviations(ranks: int) -> list[Deviation]:
    """Return those that make sense on a number of ranks. Local."""
    found = [Deviation(code, f"sums are {words}", {"divisor": change}, *concerns)
             for code, words, change, *concerns in DIVISORS]
    found += wrong_numbers("divisor", "what sums are divided by", but=(
        "times-n", "by-n", "missing", "squared", "halved"))  # see DIVISORS
    found += [Deviation(code, words, {"members": change}) for code, words, change in MEMBERS]
    found.append(Deviation("combined=maximum", "contributions are not added: the largest is taken",
                           {"combined": lambda right, m, p: np.maximum}))
    found.append(Deviation(code_of(LastRankCounts), words_of(LastRankCounts), {
        "combined": lambda right, m, p: LastRankCounts}, lambda case: bool(case.shapes)))
    found += [Deviation(f"duplicates={how}", words, {"duplicates": lambda right, m, p, how=how: how})
              for how, words in DUPLICATES]
    if ranks == 1:
        return found
    found += [Deviation("rank-miscounted", words, {"members": _with(there, change)})
              for words, there, change in miscounts("rank", ranks)]
    found += [Deviation("one-rank-alone", f"every rank gets rank {r}'s gradient alone, divided by N: it is handed on, "
                        "not aggregated", {"members": _with((r,), lambda ranks, r=r: [r])}) for r in range(ranks)]
    found += [Deviation(code, words, {"parts": change}, *concerns) for code, words, change, *concerns in PARTS]
    return found + [Deviation("mean-of-group-means", f"ranks are averaged in groups of {size}, then the groups, though "
                              "the last has fewer", {"parts": _group_means(size)}) for size in (2, 3) if ranks % size]


PARTS = (
    ("added-by-position", "row gradients are added position by position, under the ids of the rank that gets them: "
     "rows of different ids are mixed", under_own_ids),
    ("matched-by-position", "unlike variables are added: each rank's k-th gradient, though ranks produce them in "
     "different orders", matched_by_position),
    ("kinds-mixed", "collectives of two kinds meet each other: the dense gradient of one rank is added to the rows of "
     "another", partial(matched_by_position, mixed=True)),
    ("offsets-differ", "gradients are packed in the order in which a rank produced them, and unpacked by name", _packed(
        (False, 1), (True, 1))),
    ("offsets-differ", "gradients are packed by name, and unpacked in the order in which a rank produced them", _packed(
        (True, 1), (False, 1))),
    *(("offsets-differ", f"gradients are {packed} with gaps up to a multiple of 4 elements, and {unpacked} without",
       _packed((True, gap), (True, 5 - gap))) for packed, unpacked, gap in (("packed", "unpacked", 4),
                                                                             ("unpacked", "packed", 1))),
    *(("absent-left-out", "a rank packs no place for a variable of which it has no gradient: those behind it move up"
       + more, _packed((False, 0), (False, gap)), lambda case: "absent" in case.needs)
      for more, gap in (("", 1), (", on this rank both when it packs and when it unpacks", 0))),
)
"""(code, words, change of ``parts``, and perhaps ``concerns``)."""
