"""Other partitions in the middle of a training: rows and their optimizer state go straight from owner to owner.

No bit changes (DESIGN, I1). Beside its tables a rank fills one new array at a time, whose old one it then gives back.
What travels is counted in a phase of its own, "repartition", between two steps.
"""

from dataclasses import replace

import numpy as np

from kernels import array_module, take_rows
from refimpl.plan.placement import Plan
from refimpl.plan.repartition import Moves, moves_of
from refimpl.server import ServedRows
from refimpl.strategies.hot_rows import HotRows
from refimpl.training.exchange.exchange import Exchange
from refimpl.transport import Communicator

PIECE = 1 << 20  # bytes of rows that a rank has under way to each other rank at a time


def repartition(exchange: Exchange, plan: Plan) -> bool:
    """Follow another plan from the next step on; it may differ in the partitions of served sparse variables only.

    Returns True; or False on all ranks, with nothing changed, if any has no memory for its new tables. Raises
    ValueError if the plans differ in anything else. Collective; all ranks give the same plan.
    """
    _check(exchange.plan, plan)
    whole, tables, short = {v.name: v for v in exchange.variables}, {}, False
    moving = [(road, whole[v.name]) for road in _served(exchange.roads) for v in road.variables
              if exchange.plan.partitioning(whole[v.name]) != plan.partitioning(whole[v.name])]
    try:
        for road, v in moving:
            tables[v.name] = _new_tables(road.holdings[v.name], plan.partitioning(v).rows_owned(exchange.comm.rank))
    except MemoryError:
        short = True
    if exchange.comm.share(np.array([short]), "repartition").any():
        return False
    for road, v in moving:
        holding, new = road.holdings[v.name], tables.pop(v.name)
        moves = moves_of(exchange.plan.partitioning(v), plan.partitioning(v), exchange.comm.rank)
        for slot in list(new):  # one after the other: the old array is given back before the next one's pages are used
            _move(exchange.comm, moves, holding.array(slot), new[slot], v.name)
            if slot is None:
                holding.values = new.pop(slot)
            else:
                holding.state[slot] = new.pop(slot)
    for road in {id(road): road for road, _ in moving}.values():
        road.follow({v.name: plan.partitioning(whole[v.name]) for v in road.variables})
    exchange.plan = plan
    return True


def _served(roads) -> list[ServedRows]:
    """Return the roads of partitioned rows, those of cold rows among them."""
    parts = [road.cold if isinstance(road, HotRows) else road for road in roads]
    return [road for road in parts if isinstance(road, ServedRows)]


def _check(old: Plan, new: Plan):
    """Raise ValueError unless the plans differ in the partitions of served sparse variables only. Local."""
    def rest(plan):
        return replace(plan, placements=tuple(replace(p, owners=(), scheme="") if p.sparse and p.way == "server" else p
                                              for p in plan.placements))

    if rest(old) != rest(new):
        raise ValueError("only the partitions of sparse variables on the server can change during a training; save a "
                         "checkpoint and resume it to follow another plan")


def _new_tables(holding, rows):
    """Return slot (None: values) -> an array of so many rows, not written yet."""
    return {slot: array_module(array).empty((rows, *array.shape[1:]), array.dtype)
            for slot, array in ((None, holding.values), *holding.state.items())}


def _move(comm: Communicator, moves: Moves, old, new, name):
    """Fill the new table from everybody's old ones, some rows of each pair of ranks at a time. Collective."""
    others, xp = [r for r in range(comm.size) if r != comm.rank], array_module(old)
    step = max(1, PIECE // max(1, old.itemsize * old.shape[1]))
    most = max(len(rows) for r in others + [comm.rank] for rows in (moves.leaving[r], moves.arriving[r]))
    for first in range(0, most, step):
        leaving, arriving = ([rows[first:first + step] for rows in side] for side in (moves.leaving, moves.arriving))
        sends = [(r, take_rows(old, leaving[r])) for r in others]
        receives = [(r, xp.empty((len(arriving[r]), old.shape[1]), old.dtype)) for r in others]
        comm.exchange([(r, rows, {name: rows.size}) for r, rows in sends],
                      [(r, rows, {name: rows.size}) for r, rows in receives], "repartition", "rows")
        new[xp.asarray(arriving[comm.rank])] = take_rows(old, leaving[comm.rank])
        for r, rows in receives:
            new[xp.asarray(arriving[r])] = rows
