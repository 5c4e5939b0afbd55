"""Lists of row numbers between ranks: one message for each pair of ranks, which begins with the lengths of its lists.

    |length of each list|row numbers ...     HEAD numbers, or all lengths if these are more; the rest: a second message
"""

import numpy as np

from refimpl.transport import Communicator

HEAD = 2048  # numbers in a first message, lengths and row numbers: 16 KiB


def exchange_row_numbers(comm: Communicator, outgoing: dict[int, list], incoming: dict[int, list[str]],
                         phase: str) -> dict[int, list]:
    """Send each peer its lists; return each peer's lists for this rank: (k,) int64 each. Collective over these ranks.

    outgoing[peer]: (variable, (k,) int64) of each list.  incoming[peer]: the variable of each list from this peer.
    Bytes: 8 for each list (control), 8 for each row number (indices).
    """
    what = f"{phase} (row numbers)"
    leaving = {peer: _message([numbers for _, numbers in lists]) for peer, lists in outgoing.items() if lists}
    expected = {peer: len(names) for peer, names in incoming.items() if names}
    heads = {peer: np.empty(max(HEAD, n), np.int64) for peer, n in expected.items()}
    ends = {peer: max(HEAD, len(outgoing[peer])) for peer in leaving}
    comm.post([(peer, numbers[:ends[peer]]) for peer, numbers in leaving.items()], list(heads.items()), what).wait()
    came = {peer: _whole(head, expected[peer]) for peer, head in heads.items()}
    comm.post([(peer, numbers[ends[peer]:]) for peer, numbers in leaving.items() if len(numbers) > ends[peer]],
              [(peer, came[peer][len(head):]) for peer, head in heads.items() if len(came[peer]) > len(head)],
              what).wait()
    result = {peer: [] for peer in incoming}
    for peer, n in expected.items():
        result[peer] = np.split(came[peer][n:], np.cumsum(came[peer][:n])[:-1])
    for peer, lists in outgoing.items():
        _count(comm, "sent", peer, [(name, len(numbers)) for name, numbers in lists], phase)
    for peer, names in incoming.items():
        _count(comm, "received", peer, list(zip(names, map(len, result[peer]))), phase)
    return result


def _message(lists):
    """Return the message: the length of each list, then all row numbers."""
    return np.concatenate([np.array([len(numbers) for numbers in lists], np.int64), *lists])


def _whole(head, lists: int):
    """Return an array for the whole message, which begins with ``head``; the caller receives the rest into it."""
    size = lists + int(head[:lists].sum())
    if size <= len(head):
        return head[:size]
    return np.concatenate([head, np.empty(size - len(head), np.int64)])


def _count(comm, direction, peer, lengths, phase):
    if not lengths:
        return
    rows: dict[str, int] = {}
    for name, length in lengths:
        rows[name] = rows.get(name, 0) + length
    crosses = peer not in comm.machine
    comm.ledger.count(direction, crosses, phase, {"": len(lengths)}, "control", 8)
    comm.ledger.count(direction, crosses, phase, rows, "indices", 8)
