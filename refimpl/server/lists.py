"""Lists of row numbers on their way: one message a pair of ranks, which begins with how long the lists are.

    |lengths of pieces|row numbers ...     HEAD numbers at most; what does not fit follows in a second message
"""

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


HEAD = 2048  # numbers of a first message, row numbers that fit among them: 16 KiB


def exchange_lists(wire: Wire, outgoing: dict[int, list[RowList]], incoming: dict[int, list[tuple[str, int]]],
                   phase: str) -> dict[int, list[RowList]]:
    """Send each peer its lists; return each peer's lists for this rank. Collective over the ranks concerned.

    incoming[peer]: (variable, number of pieces) of each list that will come.
    Bytes: 8 for each piece of each list (control), 8 for each row number (indices).
    """
    what = f"{phase} (lists)"
    leaving = {peer: _message(lists) for peer, lists in outgoing.items()}
    lengths = {peer: sum(pieces for _, pieces in lists) for peer, lists in incoming.items()}
    heads = {peer: np.empty(max(HEAD, n), np.int64) for peer, n in lengths.items()}
    ends = {peer: max(HEAD, sum(len(one.bounds) - 1 for one in lists)) for peer, lists in outgoing.items()}
    wire.post([(peer, numbers[:ends[peer]]) for peer, numbers in leaving.items() if len(numbers)],
              [(peer, heads[peer]) for peer, n in lengths.items() if n], what).wait()
    came = {peer: _whole(head, lengths[peer]) for peer, head in heads.items()}
    wire.post([(peer, numbers[ends[peer]:]) for peer, numbers in leaving.items() if len(numbers) > ends[peer]],
              [(peer, came[peer][len(head):]) for peer, head in heads.items() if len(came[peer]) > len(head)],
              what).wait()
    result = {peer: _cut(lists, came[peer]) for peer, lists in incoming.items()}
    for direction, everyone in ("sent", outgoing), ("received", result):
        for peer, lists in everyone.items():
            _count(wire, direction, peer, lists, phase)
    return result


def _message(lists):
    """Return what travels: the lengths of all pieces, then all row numbers."""
    return np.concatenate([np.empty(0, np.int64), *(np.diff(one.bounds) for one in lists),
                           *(one.numbers for one in lists)])


def _whole(head, lengths: int):
    """Return the message of which ``head`` is the beginning; what has not come yet is to be filled in."""
    size = lengths + int(head[:lengths].sum())
    if size <= len(head):
        return head[:size]
    return np.concatenate([head, np.empty(size - len(head), np.int64)])


def _cut(lists, message) -> list[RowList]:
    """Return the lists of a message. lists: (variable, number of pieces) of each."""
    found, taken = [], 0
    first = sum(pieces for _, pieces in lists)
    for variable, pieces in lists:
        bounds = np.concatenate([[0], np.cumsum(message[taken:taken + pieces])])
        end = first + int(bounds[-1])
        found.append(RowList(variable, message[first:end], bounds))
        taken, first = taken + pieces, end
    return found


def _count(wire, direction, peer, lists, phase):
    owners: dict[str, int] = {}
    for one in lists:
        owners[one.variable] = owners.get(one.variable, 0) + len(one.numbers)
    pieces, crosses = sum(len(one.bounds) - 1 for one in lists), peer not in wire.machine
    if pieces:
        wire.ledger.count(direction, crosses, phase, {"": pieces}, "control", 8)
    if any(owners.values()):
        wire.ledger.count(direction, crosses, phase, owners, "indices", 8)
