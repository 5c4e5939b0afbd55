"""Run a schedule on the rank's own arrays, in segments: one travels while another is added up. On a GPU: in one."""

import weakref
from collections import Counter, OrderedDict
from operator import iadd, is_

from kernels import array_module, is_numpy
from refimpl.collectives.running.pipeline import Pipeline
from refimpl.collectives.running.segments import LANES, Cut, lanes_of, segments_of, steps_of
from refimpl.collectives.schedule import Schedule
from refimpl.transport import Communicator, Ledger
from refimpl.words import counted

CHANNELS, TREES = 1 << 10, 1 << 13
"""The first lanes of the other channels: no other message has their tags. Trees use more lanes, so they have their own.
Otherwise channels of both kinds would share lanes, as on a mesh, where cut layers are not summed by trees.
"""
REMEMBERED = 8  # the requests of so many tuples of arrays are kept


class ScheduleRunner:
    """A schedule for a length and dtype. The constructor is local, and allocates scratch memory.

    Messages are prepared at the first call with new arrays; a later call with the same arrays allocates nothing.
    elements: length of the vector.  like: an array of its dtype and device.
    attribute(start, stop) -> {variable: elements}: the variables in a message, for the ledger.
    add(into, other): adds to an array of that dtype, in place.
    channel: runners that are under way at the same time have different channels; on a GPU only one may be.
    """

    def __init__(self, schedule: Schedule, comm: Communicator, elements: int, like, phase: str, attribute,
                 channel: int = 0, add=iadd):
        if schedule.ranks != comm.size:
            raise ValueError(f"schedule {schedule.name} is for {counted(schedule.ranks, 'rank')}, "
                             f"the communicator has {comm.size}")
        self.comm, self.phase, self.elements, self.dtype, self.add = comm, phase, elements, like.dtype, add
        self.what = f"{phase} by {schedule.name}"
        # slot 0 exists even if a rank has no input
        self.given = max(1, len(schedule.inputs[comm.rank]))
        self.rounds = [step.of(comm.rank) for step in schedule.rounds]
        segments = segments_of(schedule, elements, like.dtype.itemsize, len(comm.machines)) if is_numpy(like) else 1
        self.cut = Cut(schedule.bounds(elements), segments)
        most = lanes_of(schedule)
        self.lanes = min(most, self.cut.segments)
        self.first_lane = ((CHANNELS if most == LANES else TREES) + channel * most) * bool(channel and is_numpy(like))
        self.rooms, self.scratch = self._make_scratch(like)
        self.counted = count_transfers(schedule, self.rounds, comm, elements, self.dtype.itemsize, phase, attribute)
        self.pipelines: OrderedDict[tuple, tuple] = OrderedDict()  # addresses -> (Pipeline, the arrays: kept alive)
        self.latest: tuple = None, ()  # the Pipeline of the last call, and its arrays
        weakref.finalize(self, _close_all, self.pipelines)

    def __call__(self, slots):
        """Sum over all ranks into slots[0], in place, and return it. Collective.

        slots: list of (elements,) arrays, contiguous, of the runner's dtype; the others than slots[0] may be
        overwritten.
        Raises ValueError for other arrays, and SilentPeer if a rank does not come within the time-out.
        """
        self._pipeline_of(slots).run()
        return slots[0]

    def begin(self, slots) -> Pipeline:
        """Begin the sum as a call does; return an object whose ``finish`` completes it. Collective."""
        pipeline = self._pipeline_of(slots)
        pipeline.begin()
        return pipeline

    def _pipeline_of(self, slots) -> Pipeline:
        """Return the messages and sums of these arrays, which are about to begin, and count their bytes. Local."""
        pipeline, known = self.latest
        if len(slots) != len(known) or not all(map(is_, slots, known)):  # the checks cost microseconds
            addresses = self._checked(slots)
            if addresses not in self.pipelines:
                self._remember(addresses, slots)
            self.pipelines.move_to_end(addresses)
            pipeline = self.pipelines[addresses][0]
            self.latest = pipeline, list(slots)
        self.comm.ledger.repeat(self.counted)
        return pipeline

    def _make_scratch(self, like):
        """Return ((slot, chunk) -> its first element in scratch; for each lane, slot -> array of its chunks)."""
        rank = self.comm.rank
        used = sorted({(t.target, chunk) for step in self.rounds for t in step.transfers
                       if t.destination == rank and t.target >= self.given for chunk in range(t.start, t.stop)})
        rooms, length = {}, Counter()
        for slot, chunk in used:
            rooms[slot, chunk] = length[slot]
            length[slot] += self.cut.longest(chunk)
        xp = array_module(like)
        return rooms, [{slot: xp.empty(n, like.dtype) for slot, n in length.items()} for _ in range(self.lanes)]

    def _checked(self, slots) -> tuple[int, ...]:
        """Return the slots' addresses. Raises ValueError if they do not fit."""
        if len(slots) != self.given:
            raise ValueError(f"the schedule wants {self.given} inputs on rank {self.comm.rank}, not {len(slots)}")
        for slot, array in enumerate(slots):
            if array.shape != (self.elements,) or array.dtype != self.dtype:
                raise ValueError(f"{self.what} wants arrays of shape ({self.elements},) and dtype {self.dtype}; "
                                 f"slot {slot} has shape {array.shape} and dtype {array.dtype}")
            if not array.flags.c_contiguous:
                raise ValueError(f"slot {slot} is not contiguous: its elements are not next to each other in memory; "
                                 f"give a copy (numpy.ascontiguousarray)")
        addresses = tuple(_address(array) for array in slots)
        if self.elements and len(set(addresses)) < len(slots):
            raise ValueError(f"two of the {len(slots)} slots share memory: give different arrays")
        return addresses

    def _remember(self, addresses, slots):
        lanes = [[] for _ in range(self.lanes)]
        for segment in range(self.cut.segments):
            lanes[segment % self.lanes] += steps_of(self.rounds, self.comm.rank, self.comm.size, self.cut, segment)

        def view(lane, piece):
            if piece.slot < self.given:
                return slots[piece.slot][piece.start:piece.stop]
            first = self.rooms[piece.slot, piece.chunk]
            return self.scratch[lane][piece.slot][first:first + piece.stop - piece.start]

        self.pipelines[addresses] = Pipeline(self.comm.transport_of(slots[0]), lanes, view, self.what,
                                              self.first_lane, self.add), list(slots)
        if len(self.pipelines) > REMEMBERED:
            self.pipelines.popitem(last=False)[1][0].close()


def count_transfers(schedule: Schedule, rounds, comm, elements: int, itemsize: int, phase: str, attribute) -> Ledger:
    """Return the counts of what this rank sends and receives. attribute: see ``ScheduleRunner``. Local."""
    counted, bounds, owners = Ledger(), schedule.bounds(elements), {}
    for t in (t for step in rounds for t in step.of(comm.rank).transfers):
        if (t.start, t.stop) not in owners:
            owners[t.start, t.stop] = attribute(bounds[t.start], bounds[t.stop])
        sends = t.source == comm.rank
        crosses = (t.destination if sends else t.source) not in comm.machine
        counted.count("sent" if sends else "received", crosses, phase, owners[t.start, t.stop], "dense", itemsize)
    return counted


def _address(array) -> int:
    return array.__array_interface__["data"][0] if hasattr(array, "__array_interface__") else array.data.ptr


def _close_all(pipelines):
    for pipeline, _ in pipelines.values():
        pipeline.close()


def run(schedule: Schedule, comm: Communicator, slots, phase: str = "allreduce", name: str = "vector"):
    """Sum ``slots`` over all ranks by ``schedule`` into slots[0] and return it. Collective over ``comm``."""
    runner = ScheduleRunner(schedule, comm, len(slots[0]), slots[0], phase, lambda start, stop: {name: stop - start})
    return runner(slots)
