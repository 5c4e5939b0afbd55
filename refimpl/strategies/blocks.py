"""Join an array from the ranks' parts, in blocks of rows. So no rank needs memory for more than a few blocks."""

from math import prod

import numpy as np

from kernels import array_module
from refimpl.server.rounds import ahead

BLOCK = 8 << 20
"""The bytes of a block. While a rank works on one, the next is in flight."""


def blocks_of(comm, xp, variable, mine, sources, takers, phase: str):
    """Yield (first row, rows) for each block of a whole array, in order; rows is None except on ``takers``.

    mine: this rank's shard, None if it has none.  takers: the ranks that take the whole array.
    sources(taker): rank -> ranges of rows that the taker gets from it, in the order of the rank's shard.
    rows: (k, elements of a row), where a scalar is a row of one element; valid until the next block.
    Collective, as is each ``next``: every rank iterates over all blocks.
    """
    me, name = comm.rank, variable.name
    height, width = table_shape(variable)
    step = max(1, BLOCK // max(1, width * np.dtype(variable.dtype).itemsize))
    table = None if mine is None else mine.reshape(-1 if mine.size else len(mine), width)
    taken = {taker: sources(taker) for taker in takers}

    def begin(first):
        stop = min(first + step, height)
        parts = {taker: list(_within(ranges.get(me, ()), first, stop)) for taker, ranges in taken.items()}
        sends = [(taker, rows, {name: rows.size}) for taker, cuts in parts.items() if cuts and taker != me
                 for rows in [_joined(xp, [table[here] for here, _ in cuts])]]
        if me not in taken:
            return first, None, [], comm.start(sends, [], phase, _kind(variable))
        block, boxes, receives = xp.empty((stop - first, width), variable.dtype), [], []
        for here, rows in parts[me]:
            block[_slice(rows, first)] = table[here]
        for rank, ranges in taken[me].items():
            if rank != me and (cuts := list(_within(ranges, first, stop))):
                box = xp.empty((sum(len(rows) for _, rows in cuts), width), variable.dtype)
                boxes.append((box, [rows for _, rows in cuts]))
                receives.append((rank, box, {name: box.size}))
        return first, block, boxes, comm.start(sends, receives, phase, _kind(variable))

    for first, block, boxes, pending in ahead(map(begin, range(0, max(1, height), step))):
        pending.wait()
        for box, parts in boxes:
            at = 0
            for rows in parts:
                block[_slice(rows, first)] = box[at:at + len(rows)]
                at += len(rows)
        yield first, block


def assembled(blocks, variable):
    """Join the blocks of ``blocks_of``, a single one without a copy; return None on ranks that do not take them."""
    whole, (height, width) = None, table_shape(variable)
    for first, rows in blocks:
        if rows is not None and len(rows) == height:
            whole = rows
        elif rows is not None:
            whole = array_module(rows).empty((height, width), rows.dtype) if whole is None else whole
            whole[first:first + len(rows)] = rows
    return None if whole is None else whole.reshape(variable.shape)


def table_shape(variable) -> tuple[int, int]:
    """Return (rows, elements of a row) of a variable; a scalar is one row. Local."""
    return (variable.shape[0] if variable.shape else 1), prod(variable.shape[1:])


def _within(ranges, first, stop):
    """Yield (slice of the shard, row numbers) of the rows of each range that lie in [first, stop)."""
    at = 0
    for rows in ranges:
        begin, end = (min(max(-((rows.start - edge) // rows.step), 0), len(rows)) for edge in (first, stop))
        if begin < end:
            yield slice(at + begin, at + end), rows[begin:end]
        at += len(rows)


def _joined(xp, pieces):
    return pieces[0] if len(pieces) == 1 else xp.concatenate(pieces)


def _slice(rows: range, first: int) -> slice:
    """Return where row numbers lie in a block that begins at row ``first``."""
    return slice(rows.start - first, rows.stop - first, rows.step)


def _kind(variable) -> str:
    return "rows" if variable.sparse else "dense"
