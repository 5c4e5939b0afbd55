"""Rows of a variable that move between ranks: which ones, as plain data, and the exchange that fills the new tables."""

from dataclasses import dataclass

import numpy as np

from kernels import array_module, take_rows
from refimpl.server.partition import Partitioning

PIECE = 1 << 20
"""Bytes of rows in flight between two ranks."""


@dataclass(frozen=True)
class Moves:
    """The rows of one variable that one rank sends and receives.

    leaving[o]: (k,) int64 rows of its old table that rank o will own, in the order of o's new table.
    arriving[r]: (k,) int64 rows of its new table that rank r owned before, rising. Rows that stay are in both.
    """

    leaving: list[np.ndarray]
    arriving: list[np.ndarray]


def moves_of(old: Partitioning, new: Partitioning, rank: int) -> Moves:
    """Return a rank's moves when a variable's rows go from the old owners to the new ones. Local.

    Every rank computes its moves from the two partitionings, so rows travel without their numbers.
    """
    return Moves(_rows_by_owner(old, new, rank), [np.sort(rows) for rows in _rows_by_owner(new, old, rank)])


def _rows_by_owner(table: Partitioning, other: Partitioning, rank: int) -> list[np.ndarray]:
    """Return for each rank the rows of ``rank``'s table that this rank owns in ``other``, in the order of ``other``."""
    route = other.route(table.global_rows(rank))
    order = np.arange(len(route.numbers)) if route.order is None else route.order
    return np.split(order, route.bounds[1:-1])


def move_rows(comm, tables: list[tuple], phase: str, kind: str = "rows"):
    """Fill new tables from the old tables of all ranks, PIECE bytes of each between two ranks at a time. Collective.

    tables: (variable's name, its ``Moves``, old table, new table) of each.  phase, kind: for the ledger.
    """
    moving = [_in_pieces(comm, *table) for table in tables]
    while pieces := [piece for table in moving if (piece := next(table, None))]:
        comm.exchange([message for sends, _ in pieces for message in sends],
                      [message for _, receives in pieces for message in receives], phase, kind)


def _in_pieces(comm, name, moves, old, new):
    """Yield the messages to send and to receive, piece by piece. Ask for the next piece when they have arrived."""
    me, xp = comm.rank, array_module(old)
    others = [r for r in range(comm.size) if r != me]
    step = max(1, PIECE // max(1, old.itemsize * old.shape[1]))
    most = max(len(rows) for r in range(comm.size) for rows in (moves.leaving[r], moves.arriving[r]))
    for first in range(0, most, step):
        leaving = [rows[first:first + step] for rows in moves.leaving]
        arriving = [rows[first:first + step] for rows in moves.arriving]
        sends = [(r, rows, {name: rows.size}) for r in others for rows in [take_rows(old, leaving[r])]]
        receives = [(r, rows, {name: rows.size}) for r in others
                    for rows in [xp.empty((len(arriving[r]), old.shape[1]), old.dtype)]]
        yield sends, receives
        for r, rows, _ in [(me, take_rows(old, leaving[me]), None), *receives]:
            new[xp.asarray(arriving[r])] = rows
