"""Run a schedule in one process, over every rank's arrays at once, for notebooks and tests. It needs no MPI."""

import numpy as np

from kernels import array_module
from refimpl.collectives.schedule import Schedule
from refimpl.words import counted


def run_local(schedule: Schedule, arrays, in_place: bool = True):
    """Run the collective and return slot 0 of each rank, a list of (n,) arrays. Local.

    in_place: results are written to slot 0, and other slots may hold partial sums afterwards; False: use copies.
    arrays[r]: rank r's (n,) array, or the list of its slots if it has several inputs (see ``Schedule``). An allreduce
    or allgather returns the sum on every rank. After a reduce-scatter only chunk c of rank owners[c] is valid. An
    allgather reads nothing else. Raises ValueError if ranks, slots, lengths or dtypes do not fit.
    """
    for state in _states(schedule, arrays, in_place):
        pass
    return state


def watch_local(schedule: Schedule, arrays) -> list[list]:
    """Run the collective on copies; return slot 0 of each rank at the start and after each round. Local.

    Element [k][r] is rank r's (n,) array before round k.  Raises ValueError as run_local does.
    """
    return [[array.copy() for array in state] for state in _states(schedule, arrays, in_place=False)]


def _states(schedule, arrays, in_place):
    """Yield slot 0 of each rank, the same arrays each time: at the start, and after each round."""
    slots = [list(own) if isinstance(own, (list, tuple)) else [own] for own in arrays]
    _check(schedule, slots)
    xp, like = array_module(slots[0][0]), slots[0][0]
    bounds = schedule.bounds(len(like))
    if not in_place:
        slots = [[array.copy() for array in own] for own in slots]
    memory = [dict(enumerate(own)) for own in slots]

    def view(rank, slot, start, stop):
        if slot not in memory[rank]:
            memory[rank][slot] = xp.zeros_like(like)
        return memory[rank][slot][bounds[start]:bounds[stop]]

    yield [own[0] for own in slots]
    for step in schedule.rounds:
        # transfers are simultaneous: read everything, then write
        moving = [view(t.source, t.origin, t.start, t.stop).copy() for t in step.transfers]
        for t, message in zip(step.transfers, moving):
            view(t.destination, t.target, t.start, t.stop)[...] = message
        for s in step.sums:
            into = view(s.rank, s.into, s.start, s.stop)
            np.add(into, view(s.rank, s.other, s.start, s.stop), out=into)
        yield [own[0] for own in slots]


def _check(schedule, slots):
    if len(slots) != schedule.ranks:
        raise ValueError(f"schedule {schedule.name} is for {counted(schedule.ranks, 'rank')}, not {len(slots)}")
    for rank, (own, nodes) in enumerate(zip(slots, schedule.inputs)):
        if len(own) != max(1, len(nodes)):  # slot 0 exists even if a rank has no input
            raise ValueError(f"the schedule wants {max(1, len(nodes))} inputs on rank {rank}, not {len(own)}")
    shapes = {(array.shape, array.dtype.name) for own in slots for array in own}
    if len(shapes) != 1 or len(slots[0][0].shape) != 1:
        raise ValueError(f"run_local wants one-dimensional arrays, all of one length and dtype, not {sorted(shapes)}")
