"""Small arrays on their way to one rank travel in one message: each message costs latency and a core's time.

    to rank 3:  |a..|  |b.|  |c.............|     ->     |a..b.|  |c.............|

Sender and receiver list the arrays of a pair in the same order. So both pack the same ones, without any agreement.
"""

import numpy as np

SMALL = 1 << 14  # bytes put together at most: copying them takes less than a message of its own would
LEAST, MOST = np.minimum.reduce, np.maximum.reduce  # ids.min() calls three Python functions


class Taken:
    """Rows of a table, which are taken where they leave from: in a message, or in a slot. Local to make.

    table: (R, d).  ids: (k,) int64.  size, nbytes, itemsize: of the (k, d) rows, as of an array.
    Raises IndexError for an id out of range.
    """

    __slots__ = "table", "ids", "size", "nbytes", "itemsize"

    def __init__(self, table: np.ndarray, ids: np.ndarray):
        if len(ids) and not (0 <= LEAST(ids) and MOST(ids) < len(table)):
            raise IndexError(f"ids reach from {LEAST(ids)} to {MOST(ids)}, the table has {len(table)} rows")
        self.table, self.ids, self.itemsize = table, ids, table.itemsize
        self.size = len(ids) * table.shape[1]
        self.nbytes = self.size * self.itemsize

    def into(self, memory):
        """Write the rows into (nbytes,) uint8. Local."""
        rows = memory.view(self.table.dtype).reshape(len(self.ids), self.table.shape[1])
        self.table.take(self.ids, 0, rows, "clip")  # what checks ids copies its result once more


def form(parts, memory) -> int:
    """Write parts, arrays or ``Taken``, one after the other into (n,) uint8; return how many were copied. Local."""
    end, copied = 0, 0
    for part in parts:
        begin, end = end, end + part.nbytes
        if type(part) is Taken:
            part.into(memory[begin:end])
        elif part.nbytes:
            memory[begin:end] = np.frombuffer(part, np.uint8)
            copied += 1
    return copied


def joined(parts):
    """Return an array of all parts: a single array itself, single rows of their dtype, others as uint8. Local."""
    if len(parts) == 1 and type(parts[0]) is not Taken:
        return parts[0]
    memory = np.empty(sum([part.nbytes for part in parts]), np.uint8)
    form(parts, memory)
    return memory if len(parts) > 1 else memory.view(parts[0].table.dtype)


def apart(parts, memory):
    """Copy (n,) uint8, what came, into arrays one after the other; the last may be longer than what is left. Local."""
    end = 0
    for part in parts:
        begin, end = end, end + part.nbytes
        if len(came := memory[begin:end]):
            np.frombuffer(part, np.uint8)[:len(came)] = came


def pack(messages) -> list[tuple[int, np.ndarray]]:
    """Return what is to be sent: (peer, array). messages: list of (peer, contiguous array or Taken). Local."""
    return [(peer, joined(parts)) for peer, parts in groups(messages)]


def buffers(messages) -> tuple[list[tuple[int, np.ndarray]], list]:
    """Return ((peer, array) to receive into, what ``unpack`` wants afterwards). messages: as for ``pack``. Local."""
    receives, packed = [], []
    for peer, parts in groups(messages):
        if len(parts) > 1:
            parts = [np.frombuffer(part, np.uint8) for part in parts]  # refuses arrays with gaps
            packed.append((parts, np.empty(sum(map(len, parts)), np.uint8)))
        receives.append((peer, packed[-1][1] if len(parts) > 1 else parts[0]))
    return receives, packed


def unpack(packed):
    """Put what came packed where it was wanted. Local."""
    for parts, memory in packed:
        apart(parts, memory)


def groups(messages) -> list[tuple[int, list]]:
    """Return [(peer, parts)]: neighbours among the arrays of a peer that are SMALL together, or one array. Local."""
    found, filling = [], {}
    for peer, array in messages:
        group, size = filling.get(peer, (None, 0))
        if group is None or size + array.nbytes > SMALL:
            group, size = [], 0
            found.append((peer, group))
        group.append(array)
        filling[peer] = group, size + array.nbytes
    return found
