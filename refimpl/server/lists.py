"""Lists of row numbers on their way: how long they are goes first, then one message a pair of ranks."""

from typing import NamedTuple

import numpy as np

from refimpl.collectives.wire import Wire


class RowList(NamedTuple):
    """Sorted row numbers of a variable, cut into pieces. numbers: (k,) int64.  bounds: piece i begins at bounds[i]."""

    variable: str
    numbers: np.ndarray
    bounds: np.ndarray

    def piece(self, first: int, end: int | None = None) -> slice:
        """Return the slice of piece ``first``, or of pieces [first, end)."""
        return slice(int(self.bounds[first]), int(self.bounds[first + 1 if end is None else end]))


def exchange_lists(wire: Wire, outgoing: dict[int, list[RowList]], incoming: dict[int, list[tuple[str, int]]],
                   phase: str) -> dict[int, list[RowList]]:
    """Send each peer its lists; return each peer's lists for this rank. Collective over the ranks concerned.

    incoming[peer]: (variable, number of pieces) of each list that will come.
    Bytes: 8 for each piece of each list (control), 8 for each row number (indices).
    """
    if not outgoing and not incoming:
        return {}
    lengths = {peer: np.concatenate([np.empty(0, np.int64), *(np.diff(one.bounds) for one in lists)])
               for peer, lists in outgoing.items()}
    arrived = {peer: np.empty(sum(pieces for _, pieces in lists), np.int64) for peer, lists in incoming.items()}
    wire.exchange([(peer, array, {"": array.size}) for peer, array in lengths.items()],
                  [(peer, array, {"": array.size}) for peer, array in arrived.items()], phase, "control")
    sends = [(peer, _joined([one.numbers for one in lists]), _owners((one.variable, len(one.numbers)) for one in lists))
             for peer, lists in outgoing.items()]
    came, receives = {}, []
    for peer, lists in incoming.items():
        came[peer], numbers, owners = _cut(lists, arrived[peer])
        receives.append((peer, numbers, owners))
    wire.exchange(sends, receives, phase, "indices")
    return came


def _joined(arrays):
    return np.ascontiguousarray(arrays[0]) if len(arrays) == 1 else np.concatenate([np.empty(0, np.int64), *arrays])


def _owners(pairs) -> dict[str, int]:
    found: dict[str, int] = {}
    for variable, count in pairs:
        found[variable] = found.get(variable, 0) + count
    return found


def _cut(lists, lengths):
    """Return (the lists to come, the array they will lie in, whose numbers it holds)."""
    numbers, found, first, taken = np.empty(int(lengths.sum()), np.int64), [], 0, 0
    for variable, pieces in lists:
        bounds = np.concatenate([[0], np.cumsum(lengths[taken:taken + pieces])])
        taken, count = taken + pieces, int(bounds[-1])
        found.append(RowList(variable, numbers[first:first + count], bounds))
        first += count
    return found, numbers, _owners((one.variable, len(one.numbers)) for one in found)
