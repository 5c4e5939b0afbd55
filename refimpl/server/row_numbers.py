"""Send lists of row numbers between ranks: one message for each pair of ranks. It begins with the lists' lengths.

    |length of each list|row numbers ...|rows ...|     HEAD numbers, or all lengths if these are more
                        |rest|                         a second message

The rows themselves, such as gradients, are in the first message if all rows of the pair fit into it. Both ends know
this from the lengths. So a push of few rows takes one message instead of two.
"""

import numpy as np

from refimpl.server.rounds import FIRST
from refimpl.transport import Communicator
from refimpl.transport.packed import apart

HEAD = FIRST // 8  # numbers in a first message, lengths and row numbers


def begin_row_numbers(comm: Communicator, outgoing: dict[int, list], incoming: dict[int, list[str]], phase: str,
                      rows: dict[int, list] | None = None, room=None, tag: int = 0):
    """Send each peer its lists; return a function that waits for each peer's lists for this rank. Collective.

    outgoing[peer]: (variable, (k,) int64) of each list.  incoming[peer]: the variable of each list from this peer.
    rows: peer -> (k, d) rows on the host, of each list.  room(name, k): an array for such rows; None: send no rows.
    The function returns peer -> lists, (k,) int64 each; and peer -> rows of each list, for peers whose rows have come
    with their numbers. Peers to which rows were sent with their numbers are removed from ``rows`` at once.
    Bytes: 8 for each list (control), 8 for each row number (indices), and the rows sent with their numbers.
    """
    what = f"{phase} (row numbers)"
    leaving = {peer: [np.array([len(numbers) for _, numbers in lists], np.int64), *[numbers for _, numbers in lists]]
               for peer, lists in outgoing.items() if lists}
    expected = {peer: len(names) for peer, names in incoming.items() if names}
    heads = {peer: np.empty(max(HEAD, n), np.int64) for peer, n in expected.items()}
    ends, rest = {peer: max(HEAD, len(outgoing[peer])) for peer in leaving}, []
    for peer, parts in leaving.items():
        size = sum([part.nbytes for part in parts])
        if room is not None and size + sum([some.nbytes for some in rows[peer]]) <= 8 * ends[peer]:
            leaving[peer] = parts + (along := rows.pop(peer))
            _count_rows(comm, "sent", peer, [name for name, _ in outgoing[peer]], along, phase)
        elif size > 8 * ends[peer]:
            numbers = np.concatenate(parts)
            leaving[peer], rest = [numbers[:ends[peer]]], [*rest, (peer, numbers[ends[peer]:])]
    first = comm.post(list(leaving.items()), [(p, head.view(np.uint8)) for p, head in heads.items()], what, tag)
    rest = comm.post(rest, [], what, tag)  # to be waited for by itself: it may leave only when its peer asks for it
    for peer, lists in outgoing.items():
        _count(comm, "sent", peer, [(name, len(numbers)) for name, numbers in lists], phase)

    def finish():
        first.wait()
        came = {peer: _whole(head, expected[peer]) for peer, head in heads.items()}
        more = [(peer, came[peer][len(head):]) for peer, head in heads.items() if len(came[peer]) > len(head)]
        comm.post([], more, what, tag).wait()
        rest.wait()
        return _received(comm, incoming, expected, heads, came, room, phase)

    return finish


def _received(comm, incoming, expected, heads, came, room, phase):
    """Count what came; return the lists, and the rows that came with them."""
    result = {peer: [] for peer in incoming}
    for peer, n in expected.items():
        result[peer] = np.split(came[peer][n:], np.cumsum(came[peer][:n])[:-1])
    for peer, names in incoming.items():
        _count(comm, "received", peer, list(zip(names, map(len, result[peer]))), phase)
    return result, {} if room is None else {peer: found for peer, head in heads.items() if (found := _along(
        comm, peer, incoming[peer], result[peer], head[len(came[peer]):], room, phase)) is not None}


def _whole(head, lists: int):
    """Return an array for all lengths and numbers. It begins with ``head``; the caller receives the rest into it."""
    size = lists + int(head[:lists].sum())
    if size <= len(head):
        return head[:size]
    return np.concatenate([head, np.empty(size - len(head), np.int64)])


def _along(comm, peer, names, lists, left, room, phase):
    """Return the rows of each list from ``left``, what follows the numbers; None if they come in a later message."""
    found = [room(name, len(numbers)) for name, numbers in zip(names, lists)]
    if sum([rows.nbytes for rows in found]) > left.nbytes:
        return None
    apart(found, left.view(np.uint8))
    _count_rows(comm, "received", peer, names, found, phase)
    return found


def _count(comm, direction, peer, lengths, phase):
    if not lengths:
        return
    rows: dict[str, int] = {}
    for name, length in lengths:
        rows[name] = rows.get(name, 0) + length
    crosses = peer not in comm.machine
    comm.ledger.count(direction, crosses, phase, {"": len(lengths)}, "control", 8)
    comm.ledger.count(direction, crosses, phase, rows, "indices", 8)


def _count_rows(comm, direction, peer, names, rows, phase):
    for name, some in zip(names, rows):
        if some.size:
            comm.ledger.count(direction, peer not in comm.machine, phase, {name: some.size}, "rows", some.itemsize)
