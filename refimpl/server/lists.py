"""Lists of row numbers on their way: a message for each pair of ranks, which begins with how long the lists are.

    |lengths of pieces|row numbers ...     HEAD numbers, or all lengths if these are more; the rest in a second
"""

from typing import NamedTuple

import numpy as np

from refimpl.transport import Communicator


class RowList(NamedTuple):
    """Sorted row numbers of a variable, cut into pieces. numbers: (k,) int64.  bounds: piece i begins at bounds[i]."""

    variable: str
    numbers: np.ndarray
    bounds: np.ndarray

    def piece(self, first: int, end: int | None = None) -> slice:
        """Return the slice of piece ``first``, or of pieces [first, end)."""
        return slice(int(self.bounds[first]), int(self.bounds[first + 1 if end is None else end]))


HEAD = 2048  # numbers of a first message, row numbers that fit among them: 16 KiB


def exchange_lists(comm: Communicator, outgoing: dict[int, list[RowList]], incoming: dict[int, list[tuple[str, int]]],
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
    comm.post([(peer, numbers[:ends[peer]]) for peer, numbers in leaving.items() if len(numbers)],
              [(peer, heads[peer]) for peer, n in lengths.items() if n], what).wait()
    came = {peer: _whole(head, lengths[peer]) for peer, head in heads.items()}
    comm.post([(peer, numbers[ends[peer]:]) for peer, numbers in leaving.items() if len(numbers) > ends[peer]],
              [(peer, came[peer][len(head):]) for peer, head in heads.items() if len(came[peer]) > len(head)],
              what).wait()
    result = {peer: _cut(lists, came[peer]) for peer, lists in incoming.items()}
    for direction, everyone in ("sent", outgoing), ("received", result):
        for crosses in (False, True):
            some = [one for peer, lists in everyone.items() if (peer not in comm.machine) == crosses for one in lists]
            _count(comm.ledger, direction, crosses, some, phase)
    return result


def _message(lists):
    """Return what travels: the lengths of all pieces, then all row numbers."""
    return np.concatenate([np.empty(0, np.int64), *(one.bounds[1:] - one.bounds[:-1] for one in lists),
                           *(one.numbers for one in lists)])


def _whole(head, lengths: int):
    """Return the message of which ``head`` is the beginning; what has not come yet is to be filled in."""
    size = lengths + int(head[:lengths].sum())
    if size <= len(head):
        return head[:size]
    return np.concatenate([head, np.empty(size - len(head), np.int64)])


def _cut(lists, message) -> list[RowList]:
    """Return the lists of a message. lists: (variable, number of pieces) of each."""
    found, taken, lengths = [], 0, sum(pieces for _, pieces in lists)
    ends = np.empty(lengths + 1, np.int64)  # where each piece begins in the message, and the end
    ends[0] = lengths
    np.cumsum(message[:lengths], out=ends[1:])
    ends[1:] += lengths
    for variable, pieces in lists:
        first, end = ends[taken], ends[taken + pieces]
        found.append(RowList(variable, message[first:end], ends[taken:taken + pieces + 1] - first))
        taken += pieces
    return found


def _count(ledger, direction, crosses, lists, phase):
    owners: dict[str, int] = {}
    for one in lists:
        owners[one.variable] = owners.get(one.variable, 0) + len(one.numbers)
    if lists:
        ledger.count(direction, crosses, phase, {"": sum(len(one.bounds) - 1 for one in lists)}, "control", 8)
        ledger.count(direction, crosses, phase, owners, "indices", 8)
