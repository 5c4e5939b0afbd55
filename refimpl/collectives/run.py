"""Run a schedule over MPI: each round's transfers at once, then its sums, on views of the rank's own arrays."""

import numpy as np

from kernels import array_module
from refimpl.collectives.schedule import Schedule
from refimpl.collectives.wire import Wire


def _scratch(schedule: Schedule, rank: int, bounds, given: int, elements: int, like):
    """Return slot -> (first element, array) for scratch slots, each just as long as its chunks reach."""
    reach = {}
    for step in schedule.rounds:
        for t in step.transfers:
            if t.destination == rank and t.target >= given:
                low, high = reach.get(t.target, (schedule.chunks, 0))
                reach[t.target] = (min(low, t.start), max(high, t.stop))
    xp = array_module(like)
    return {slot: (bounds[low], xp.empty(bounds[high] - bounds[low], like.dtype)) for slot, (low, high) in reach.items()}


class Runner:
    """A schedule bound to a length and dtype: scratch memory is allocated once, here. Local to make.

    elements: length of the vector.  like: an array of its dtype and device.
    attribute(start, stop) -> {variable: elements}: whose elements a message holds, for the ledger.
    """

    def __init__(self, schedule: Schedule, wire: Wire, elements: int, like, phase: str, attribute):
        if schedule.ranks != wire.size:
            raise ValueError(f"schedule {schedule.name} is for {schedule.ranks} ranks, the communicator has {wire.size}")
        self.wire, self.phase = wire, phase
        self.bounds = schedule.bounds(elements)
        self.given = max(1, len(schedule.inputs[wire.rank]))  # slot 0 exists even where a rank has no input
        self.scratch = _scratch(schedule, wire.rank, self.bounds, self.given, elements, like)
        self.rounds = [step.of(wire.rank) for step in schedule.rounds]
        self.owners = {(t.start, t.stop): attribute(self.bounds[t.start], self.bounds[t.stop])
                       for step in self.rounds for t in step.transfers}

    def __call__(self, slots):
        """Sum over all ranks into slots[0], in place. slots: list of (elements,) arrays. Collective."""
        if len(slots) != self.given:
            raise ValueError(f"the schedule wants {self.given} inputs on rank {self.wire.rank}, not {len(slots)}")
        for step in self.rounds:
            sends, receives = [], []
            for t in step.transfers:
                owners = self.owners[t.start, t.stop]
                if t.source == self.wire.rank:
                    sends.append((t.destination, self._view(slots, t.origin, t.start, t.stop), owners))
                else:
                    receives.append((t.source, self._view(slots, t.target, t.start, t.stop), owners))
            self.wire.exchange(sends, receives, self.phase, "dense")
            for s in step.sums:
                into = self._view(slots, s.into, s.start, s.stop)
                np.add(into, self._view(slots, s.other, s.start, s.stop), out=into)
        return slots[0]

    def _view(self, slots, slot, start, stop):
        first, array = (0, slots[slot]) if slot < len(slots) else self.scratch[slot]
        return array[self.bounds[start] - first:self.bounds[stop] - first]


def run(schedule: Schedule, wire: Wire, slots, phase: str = "allreduce", name: str = "vector"):
    """Sum ``slots`` over all ranks by ``schedule`` into slots[0] and return it. Collective over the wire's ranks."""
    runner = Runner(schedule, wire, len(slots[0]), slots[0], phase, lambda start, stop: {name: stop - start})
    return runner(slots)
