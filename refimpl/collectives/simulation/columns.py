"""Rounds as columns: NumPy arrays of all transfers, for code that handles thousands of ranks.

A round of 4096 ranks may have 16 million transfers: as tuples they take minutes, as columns a second. ``columns_of``
converts any schedule; ``columns`` makes those of the large algorithms without tuples (a test compares both).
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from refimpl.collectives.algorithms.halves import collect, one_node_each
from refimpl.collectives.choose import ALGORITHMS, make_schedule
from refimpl.collectives.effort import COLUMNS, GLANCE, of_simulation, require
from refimpl.collectives.prove import prove
from refimpl.collectives.running.segments import LANES, lanes_of
from refimpl.collectives.schedule import Round, Schedule
from refimpl.transport.machines import in_blocks

PROVED = 256
"""The most ranks for which predictions make and prove a schedule. For more they use columns, in MOST segments."""
MOST = 6
_ALONE = 5  # simulating a segment beside others takes so many times as long as simulating it alone
AT_SCALE = ("halving-doubling", "direct", "hierarchical")
"""Algorithms among which predictions choose for more ranks: those in reproducible order that have columns."""
_NOTHING = np.zeros(0, np.int32)


class RoundColumns(NamedTuple):
    """One round. Transfer i: ``source[i]`` sends chunks [start[i], stop[i]) to ``destination[i]``.

    Sums: rank ``adder[j]`` adds ``times[j]`` slots to others, in chunks [add_start[j], add_stop[j]). All are
    (transfers,) or (sums,) integer arrays.
    """

    source: np.ndarray = _NOTHING
    destination: np.ndarray = _NOTHING
    start: np.ndarray = _NOTHING
    stop: np.ndarray = _NOTHING
    adder: np.ndarray = _NOTHING
    add_start: np.ndarray = _NOTHING
    add_stop: np.ndarray = _NOTHING
    times: np.ndarray = _NOTHING


class _Rounds:
    """Rounds that are made again each time they are read."""

    def __init__(self, make, *given):
        self.make, self.given = make, given

    def __iter__(self):
        return iter(self.make(*self.given))


@dataclass(frozen=True)
class ColumnSchedule:
    """A schedule whose rounds are read one after the other, not stored. lanes: segments under way at once."""

    name: str
    ranks: int
    chunks: int
    rounds: Iterable[RoundColumns]
    lanes: int = LANES

    def bounds(self, elements: int):
        """Return where the chunks of a vector begin, and its end, as ``Schedule.bounds``: (chunks + 1,) int64."""
        return np.arange(self.chunks + 1, dtype=np.int64) * elements // self.chunks


def columns_of(schedule: Schedule | ColumnSchedule) -> ColumnSchedule:
    """Return the columns of a schedule's rounds, or those that are given. Local."""
    if isinstance(schedule, ColumnSchedule):
        return schedule
    return ColumnSchedule(schedule.name, schedule.ranks, schedule.chunks, _Rounds(map, round_columns, schedule.rounds),
                          lanes_of(schedule))


def to_predict(algorithm: str, ranks: int, leaves: int, machines=None) -> tuple[Schedule | ColumnSchedule, bool]:
    """Return (schedule, whether its order is reproducible). Beyond PROVED ranks it is columns, not proved. Local.

    A training proves its schedule before it runs, on any number of ranks. Raises ValueError as ``make_schedule`` does;
    beyond PROVED ranks also if an algorithm has no columns or takes too long, or if V / N is not a power of two.
    """
    if ranks <= PROVED:
        schedule = make_schedule(algorithm, ranks, leaves, machines=machines)
        return schedule, prove(schedule).canonical
    if algorithm == "auto":
        algorithm = "direct" if ranks & ranks - 1 else "halving-doubling"
    each, rest = divmod(leaves, ranks)
    uneven = rest or each & each - 1 or algorithm == "hierarchical" and not _one_node_each(machines, ranks)
    if algorithm not in COLUMNS or uneven:
        raise ValueError(f"{algorithm} on {ranks} ranks with {leaves} microbatches: beyond {PROVED} ranks only "
                         f"{', '.join(COLUMNS)} are predicted, for 1, 2, 4, ... microbatches a rank and equal machines "
                         "of 1, 2, 4, ... ranks")
    require(f"to predict {algorithm}", ranks, lambda fewer: of_simulation(
        algorithm, fewer, len(machines[0]) if machines else 1, _ALONE * MOST), GLANCE)
    return columns(algorithm, ranks, machines), algorithm in AT_SCALE


def round_columns(step: Round) -> RoundColumns:
    """Return a round as columns. Local."""
    moves = np.array(step.transfers, np.int32).reshape(-1, 6)
    sums = np.array(step.sums, np.int32).reshape(-1, 5)
    return RoundColumns(*moves.T[:4], sums[:, 0], sums[:, 3], sums[:, 4], np.ones(len(sums), np.int32))


def columns(name: str, ranks: int, machines=None) -> ColumnSchedule:
    """Return the columns of an allreduce with one input on each rank; large ones are made without tuples. Local.

    They are not proved.  machines: of an algorithm ``by_machine``, else None.  Raises ValueError if the algorithm does
    not exist or does not work with these numbers.
    """
    if name == "ring":
        return ColumnSchedule(name, ranks, ranks, _Rounds(_ring, ranks))
    if name == "direct":
        return ColumnSchedule(name, ranks, ranks, _Rounds(_direct, ranks))
    if name == "halving-doubling" and ranks & (ranks - 1) == 0:
        return ColumnSchedule(name, ranks, ranks, _Rounds(_halving_doubling, ranks))
    if name == "hierarchical" and _one_node_each(machines, ranks):
        return ColumnSchedule(name, ranks, ranks, _Rounds(_hierarchical, machines))
    if name not in ALGORITHMS:
        return columns_of(make_schedule(name, ranks, ranks, machines=machines))
    topology = {} if name != "hierarchical" else {"machines": machines}
    rounds, owners = collect(ALGORITHMS[name](one_node_each(ranks), **topology))
    return ColumnSchedule(name, ranks, len(owners), _Rounds(map, round_columns, rounds))


def _one_node_each(machines, ranks) -> bool:
    """Return whether the microbatches of each machine are one node of one level: aligned blocks of a power of two."""
    each = len(machines[0]) if machines else 0
    return each > 0 and each & (each - 1) == 0 and ranks % each == 0 and machines == in_blocks(ranks, each)


def _added(moves: RoundColumns) -> RoundColumns:
    """Return the round in which received chunks are also added."""
    at, start, stop = moves.destination, moves.start, moves.stop
    return RoundColumns(moves.source, at, start, stop, at, start, stop, np.ones(at.size, np.int32))


def _backwards(moves: RoundColumns) -> RoundColumns:
    return RoundColumns(moves.destination, moves.source, moves.start, moves.stop)


def _ring(ranks):
    rank = np.arange(ranks, dtype=np.int32)
    right = (rank + 1) % ranks
    for step in range(ranks - 1):
        chunk = (rank - step) % ranks
        yield _added(RoundColumns(rank, right, chunk, chunk + 1))
    for step in range(ranks - 1):
        chunk = (rank + 1 - step) % ranks
        yield RoundColumns(rank, right, chunk, chunk + 1)


def _all_pairs(count):
    """Return (first, second) of all pairs of different numbers below ``count``."""
    one = np.repeat(np.arange(count, dtype=np.int32), count - 1)
    other = np.tile(np.arange(count - 1, dtype=np.int32), count)
    other += other >= one
    return one, other


def _direct(ranks):
    owner, other = _all_pairs(ranks)
    rank = np.arange(ranks, dtype=np.int32)
    yield RoundColumns(other, owner, owner, owner + 1, rank, rank, rank + 1, np.full(ranks, ranks - 1, np.int32))
    yield RoundColumns(owner, other, owner, owner + 1)


def _halving_doubling(ranks):
    rank, halvings = np.arange(ranks, dtype=np.int32), []
    start, length = np.zeros_like(rank), ranks
    for k in range(ranks.bit_length() - 1):
        length //= 2
        start = start + length * (rank >> k & 1)
        halvings.append(RoundColumns(rank ^ 1 << k, rank, start, start + length))
    yield from map(_added, halvings)
    yield from map(_backwards, reversed(halvings))


def _hierarchical(machines):
    ranks = np.array(machines, np.int32)
    many, lanes = ranks.shape
    lane, other = _all_pairs(lanes)
    first = np.tile(lane * many, many)
    within = RoundColumns(ranks[:, other].ravel(), ranks[:, lane].ravel(), first, first + many)
    owner, other = _all_pairs(many)
    chunk = (np.arange(lanes, dtype=np.int32) * many + owner[:, None]).ravel()
    across = RoundColumns(ranks[other].ravel(), ranks[owner].ravel(), chunk, chunk + 1)
    yield from map(_added, (within, across))
    yield from map(_backwards, (across, within))
