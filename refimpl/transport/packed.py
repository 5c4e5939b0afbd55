"""Send small arrays to one rank in one message, because each message costs latency and a core's time.

    to rank 3:  |a..|  |b.|  |c.............|     ->     |a..b.|  |c.............|

Sender and receiver list the arrays of a pair in the same order. So both pack the same arrays, without an agreement.
"""

import numpy as np

SMALL = 1 << 14  # bytes of a packed message at most: a copy of so many takes less time than another message
LEAST, MOST = np.minimum.reduce, np.maximum.reduce  # faster than ids.min(), which calls three Python functions


class Taken:
    """Rows of a table, to be sent: copied once, directly into the message or slot. The constructor is local.

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
        self.table.take(self.ids, 0, rows, "clip")  # other modes, which check ids, copy once more


def form(parts, memory) -> int:
    """Write arrays or ``Taken``, one after the other, into (n,) uint8; return how many arrays were copied. Local."""
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
    """Return all parts as one array of uint8. A single array is returned itself, a single ``Taken`` as rows. Local."""
    if len(parts) == 1 and type(parts[0]) is not Taken:
        return parts[0]
    memory = np.empty(sum([part.nbytes for part in parts]), np.uint8)
    form(parts, memory)
    return memory if len(parts) > 1 else memory.view(parts[0].table.dtype)


def apart(parts, memory):
    """Copy a received message, (n,) uint8, into arrays, one after the other. It may end before the last does. Local."""
    end = 0
    for part in parts:
        begin, end = end, end + part.nbytes
        if len(came := memory[begin:end]):
            np.frombuffer(part, np.uint8)[:len(came)] = came


def pack(messages) -> list[tuple[int, np.ndarray]]:
    """Return the (peer, array) to send. messages: list of (peer, contiguous array or Taken). Local."""
    return [(peer, joined(parts)) for peer, parts in groups(messages)]


def buffers(messages) -> tuple[list[tuple[int, np.ndarray]], list]:
    """Return (list of (peer, array) to receive into, the argument of ``unpack``). messages: as for ``pack``. Local."""
    receives, packed = [], []
    for peer, parts in groups(messages):
        if len(parts) > 1:
            parts = [np.frombuffer(part, np.uint8) for part in parts]  # refuses arrays with gaps
            packed.append((parts, np.empty(sum(map(len, parts)), np.uint8)))
        receives.append((peer, packed[-1][1] if len(parts) > 1 else parts[0]))
    return receives, packed


def unpack(packed):
    """Copy packed messages into the arrays that receive them. Local."""
    for parts, memory in packed:
        apart(parts, memory)


def groups(messages) -> list[tuple[int, list]]:
    """Return [(peer, parts)], parts of each message: one array, or consecutive ones of SMALL bytes at most. Local."""
    found, filling = [], {}
    for peer, array in messages:
        group, size = filling.get(peer, (None, 0))
        if group is None or size + array.nbytes > SMALL:
            group, size = [], 0
            found.append((peer, group))
        group.append(array)
        filling[peer] = group, size + array.nbytes
    return found
