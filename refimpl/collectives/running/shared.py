"""Run an allreduce through memory that the ranks of a machine share: what the schedule would send, they read.

    slots of ranks 0 1 2 3, in one window          each rank adds up its share of all slots, in tree order,
    |a0 b0 c0 d0| ... |a3 b3 c3 d3|     ->         into slot 0 of the machine's lowest rank: |A B C D|, read by all

In place the bus carries N n in and n out, and nothing is copied. Private arrays are read and written where they lie
(``peer_memory``) or, short or where the host forbids that, copied in and out, segment by segment. Several machines: the
lanes of ``hierarchical`` send each other messages from that one copy, and receive into it.
"""

from operator import is_

import numpy as np

from kernels import is_numpy
from kernels.shared_sum.fast import DTYPES, computable, fused, scratch_for, table
from kernels.shared_sum.steps import BUFFERS, EVENTS, all_at_once, in_place, pipelined
from refimpl.collectives.running.runner import Runner
from refimpl.collectives.running.shared_plan import plan_of
from refimpl.collectives.schedule import Schedule
from refimpl.gradients import Node
from refimpl.transport import Communicator, peer_memory
from refimpl.transport.peer_memory import PeerMemory
from refimpl.transport.shared_memory import aligned, open_window

SEGMENT = 128 << 10  # bytes of a rank's segment in a ring of private sums: the ring stays in the cache
SHORT = 16 << 10  # bytes of a vector of which every rank adds up all for itself: one wait for the others, not two


class SharedRunner:
    """A schedule bound to a length and dtype, in shared memory. Collective over the communicator's ranks to make.

    Arguments as for ``Runner``; the schedule is "direct" on one machine, "hierarchical" (of ``comm.machines``) on
    several.  slots: this rank's input arrays (elements,) in shared memory, one for each of its tree nodes (at least
    one). Memory lasts as long as the runner, or an array of it.
    Bytes are counted as the schedule's: a load is its transfer. Raises CollectiveError on all ranks for arrays that are
    no NumPy arrays, dtypes without a kernel, schedules that do not fit the machines, and too little shared memory. A
    rank that dies in a call is noticed within a second, one that does not come after the communicator's time-out.
    """

    def __init__(self, schedule: Schedule, comm: Communicator, elements: int, like, phase: str, attribute):
        self.comm, self.phase, self.elements = comm, phase, elements
        self.members, self._given = comm.machine, [max(1, len(schedule.inputs[r])) for r in comm.machine]
        kinds = comm.gather_numbers([elements, like.dtype.num if is_numpy(like) else -1], f"{phase}: what is summed")
        plan = comm.together(lambda: self._checked(schedule, like, kinds), (ValueError,))
        self.dtype = like.dtype
        self._lay_out(f"{phase} by {schedule.name} through shared memory")
        self._count_loads(schedule, attribute)
        self._bind(schedule, plan)
        self._messages = None
        if plan.across:
            inputs = tuple((Node(0, r),) * (len(self._extra) if r == comm.rank else 1) for r in range(comm.size))
            inner = Schedule(schedule.name, schedule.chunks, inputs, plan.across)
            self._messages = Runner(inner, comm, elements, like, phase, attribute)

    def __call__(self, slots=None):
        """Return the sum over all ranks. Collective.

        Without ``slots``, of what lies in ``self.slots``: one array a machine (of a short sum: one a rank), not to be
        written, and valid until the next call or until the machine's lowest rank writes its slot 0 again: call
        ``release`` before, or meet otherwise. Given private arrays ``slots``, contiguous and as many as ``self.slots``:
        into slots[0], which is returned.
        """
        if slots is None:
            result = self._in_place()
        else:
            result = self._private(slots)
        self._count()
        return result

    def release(self):
        """Say that this rank has read the sum; the machine's lowest rank waits for all. Collective over the machine."""
        self.window.reach(self.window.me == 0)

    def _checked(self, schedule, like, kinds):
        if not is_numpy(like):
            raise ValueError(f"shared memory holds NumPy arrays, not {type(like).__module__} arrays; use Runner")
        if computable(like.dtype) is None:
            raise ValueError(f"no shared-memory sum of {like.dtype}; there are {', '.join(DTYPES)}")
        if (kinds != kinds[0]).any():
            raise ValueError(f"ranks disagree: rank {self.comm.rank} sums {self.elements} elements of {like.dtype}")
        if schedule.ranks != self.comm.size or schedule.kind != "allreduce":
            raise ValueError(f"schedule {schedule.name} is an {schedule.kind} for {schedule.ranks} ranks, "
                             f"shared memory wants an allreduce for the communicator's {self.comm.size}")
        return plan_of(schedule, self.comm.machines, self.comm.rank)

    def _lay_out(self, what):
        """Place every rank's slots and the ring of buffers in one window. Collective."""
        size, total = self.dtype.itemsize, sum(self._given)
        self._segment = SEGMENT // size
        each = aligned(self.elements * size)
        ring = min(SEGMENT, each)
        self._table = total * each + BUFFERS * total * ring  # where private arrays' addresses are told
        nbytes = self._table + total * np.dtype(np.int64).itemsize
        self.window = open_window(self.comm, nbytes, what)
        first = dict(zip(self.members, np.cumsum([0, *self._given]).tolist()))
        self._place = {(r, slot): (first[r] + slot) * each
                       for r, given in zip(self.members, self._given) for slot in range(given)}
        self._ring_place = {key: total * each + offset // max(each, 1) * ring for key, offset in self._place.items()}
        self._stride = total * ring
        mine = self._given[self.window.me]
        self.slots = [self._array(self._place[self.comm.rank, slot]) for slot in range(mine)]
        self.result = self._array(self._place[self.members[0], 0])
        self._known, self._known_addresses = [], None  # the private slots of the last call
        self._slot_addresses = _addresses_of(self.slots)
        self._segments, self._free = 0, np.zeros(BUFFERS, np.int64)

    def _array(self, offset):
        return self.window.array(offset, self.elements, self.dtype)

    def _bind(self, schedule, plan):
        """Turn the plan's ranks and slots into this process's addresses."""
        share, base, leader = plan.share, self.window.address, (self.members[0], 0)
        bounds = schedule.bounds(self.elements)
        extra = 1 + max((slot for _, slot in share.outputs), default=0)
        self._extra = [self.result, *(np.empty(self.elements, self.dtype) for _ in range(extra - 1))]
        places = [(register, self._extra[slot].ctypes.data) for register, slot in share.outputs]
        scratch = scratch_for(len(share.inputs), self.dtype)
        sums = fused(share.sums, [register for register, _ in share.outputs])
        inputs = np.array([base + self._place[key] for key in share.inputs], np.int64)
        self._shared = inputs, sums, table(places), bounds[share.start], bounds[share.stop], scratch
        ring = np.array([base + self._ring_place[key] for key in share.inputs], np.int64)
        ring_result = table([(share.outputs[0][0], base + self._ring_place[leader])] if share.outputs else [])
        own = [base + self._ring_place[self.comm.rank, slot] for slot in range(len(self.slots))]
        self._ring = ring, sums, ring_result, scratch, np.array(own, np.int64)
        self._peers, long = None, self.elements * self.dtype.itemsize >= peer_memory.LONG
        if long and not plan.across and peer_memory.ranks_reach_each_other(self.comm):
            numbers = {key: number for number, key in enumerate(self._place)}
            self._peers = PeerMemory(self.window, self._table, numbers, share.inputs, sums, share.outputs[0][0],
                                     scratch, self.elements)
        short = not plan.across and self.elements * self.dtype.itemsize <= SHORT
        self._short = np.empty(self.elements, self.dtype) if short else None  # this rank's own sum
        self._short_address = self._short.ctypes.data if short else 0

    def _in_place(self):
        window = self.window
        if self._short is not None:
            self._all_at_once(self._slot_addresses, self._short_address)
            return self._short
        window.do(in_place, *self._shared)
        window.flag += 2
        if self._messages:
            self._messages(self._extra)
            window.reach(True)
        return self.result

    def _private(self, slots):
        addresses = self._addresses(slots)
        if self._messages:
            for own, private in zip(self.slots, slots):
                own[:] = private
            slots[0][:] = self._in_place()
            self.release()
        elif self._short is not None:
            self._all_at_once(addresses, int(addresses[0]))
        elif not (self._peers and self._peers.add_up(slots, addresses)):
            self._pipeline(addresses)
        return slots[0]

    def _pipeline(self, addresses):
        self.window.do(pipelined, *self._ring, addresses, self.elements, self._segment, self._segments, self._stride,
                       self._free)
        segments = -(-self.elements // self._segment)
        self.window.flag += EVENTS * (segments + 1)
        self._segments += segments

    def _all_at_once(self, addresses, target):
        self.window.do(all_at_once, *self._ring, addresses, target, self.elements, self._segments, self._stride,
                       self._free)
        self.window.flag += 1
        self._segments += 1

    def _addresses(self, slots):
        # looking closely costs microseconds
        if self._known and len(slots) == len(self._known) and all(map(is_, slots, self._known)):
            return self._known_addresses
        if len(slots) != len(self.slots):
            raise ValueError(f"the schedule wants {len(self.slots)} inputs on rank {self.comm.rank}, not {len(slots)}")
        for array in slots:
            if not is_numpy(array) or array.dtype != self.dtype or array.shape != (self.elements,):
                raise ValueError(f"private slots must be NumPy arrays ({self.elements},) of {self.dtype}")
            if not array.flags.c_contiguous or not array.flags.writeable:
                raise ValueError("private slots must be contiguous and writeable; pass copies")
        self._known = list(slots)
        self._known_addresses = _addresses_of(slots)
        return self._known_addresses

    def _count_loads(self, schedule, attribute):
        """Add up, once, what the schedule's transfers within this machine count for this rank in every call."""
        bounds, self._sent, self._received = schedule.bounds(self.elements), {}, {}
        for step in schedule.rounds:
            for t in step.transfers:
                start, stop = bounds[t.start], bounds[t.stop]
                if start == stop or t.source not in self.members or t.destination not in self.members:
                    continue
                mine = (self._sent, t.source), (self._received, t.destination)
                for counter in [counter for counter, rank in mine if rank == self.comm.rank]:
                    for variable, elements in attribute(start, stop).items():
                        key = self.phase, variable, "dense"
                        counter[key] = counter.get(key, 0) + elements * self.dtype.itemsize

    def _count(self):
        ledger = self.comm.ledger
        for key, nbytes in self._sent.items():
            ledger.sent[key] += nbytes
        for key, nbytes in self._received.items():
            ledger.received[key] += nbytes


def _addresses_of(arrays):
    return np.array([array.ctypes.data for array in arrays], np.int64)
