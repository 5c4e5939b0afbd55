"""An allreduce in memory that the ranks of a machine share: instead of messages, ranks read each other's arrays.

    slots of ranks 0 1 2 3, in one window          each rank adds up its share of all slots, in tree order,
    |a0 b0 c0 d0| ... |a3 b3 c3 d3|     ->         into slot 0 of the machine's lowest rank: |A B C D|, read by all

Arrays in the window are added up in place, and nothing is copied. Private arrays are copied into the window and back,
segment by segment, or are read and written where they lie (``peer_memory``), if the host allows this and it is faster.
With several machines, the lanes of ``hierarchical`` send messages from the window, and receive into it.
"""

import time
from operator import is_

import numpy as np

from kernels import is_numpy
from kernels.shared_sum.fast import DTYPES, computable, fused, scratch_for, table
from kernels.shared_sum.steps import BUFFERS, EVENTS, all_at_once, in_place, pipelined
from refimpl.collectives.running.runner import ScheduleRunner, count_transfers
from refimpl.collectives.running.shared_plan import SharedPlan, plan_of
from refimpl.collectives.schedule import Schedule
from refimpl.gradients import Node
from refimpl.transport import Communicator
from refimpl.transport.memory import peer_memory
from refimpl.transport.memory.peer_memory import PeerMemory
from refimpl.transport.memory.shared_memory import SharedWindow, aligned

SEGMENT = 256 << 10  # bytes of a rank's segment in a ring of private sums: the ring stays in the cache
SAME_WAY = 4  # calls with private arrays before the lowest rank chooses again
TRY_OTHER = 32  # choices, one of which takes the slower way, which may have become the faster one
SHORT = 16 << 10  # bytes of a vector of which every rank adds up all for itself: one wait for the others, not two


class SharedRunner:
    """A schedule for a length and dtype, in shared memory. The constructor is local; ``open`` and calls are collective.

    slots: this rank's input arrays (elements,) in shared memory, one for each of its tree nodes (at least one). The
    memory is kept as long as the runner or one of these arrays.  A read counts as the schedule's transfer. The others
    notice within a second if a rank dies in a call, and after the communicator's time-out if it does not come.
    plan: of this rank.  window: of the machine.  reach: whether its ranks can read each other's private arrays.
    """

    def __init__(self, schedule: Schedule, comm: Communicator, elements: int, dtype, phase: str, attribute,
                 plan: SharedPlan, window: SharedWindow, reach: bool):
        self.comm, self.members, self.elements, self.dtype, self.window = comm, comm.machine, elements, dtype, window
        self._lay_out(_slots_of(schedule, comm))
        loads = [step for step in schedule.rounds if step not in plan.across]
        self.counted = count_transfers(schedule, loads, comm, elements, dtype.itemsize, phase, attribute)
        self._bind(schedule, plan, reach)
        self._messages = None
        if not plan.across:
            self.counted.read_in_place.add(phase)
        else:
            inputs = tuple((Node(0, r),) * (len(self._extra) if r == comm.rank else 1) for r in range(comm.size))
            inner = Schedule(schedule.name, schedule.chunks, inputs, plan.across)
            self._messages = ScheduleRunner(inner, comm, elements, self.result, phase, attribute)

    @classmethod
    def open(cls, schedule: Schedule, comm: Communicator, elements: int, like, phase: str, attribute) -> "SharedRunner":
        """Return the runner of a schedule: "direct" on one machine; on several, one with hierarchical's rounds.

        Arguments: see ``ScheduleRunner``. Collective over ``comm``. Raises CollectiveError on all ranks for arrays that
        are not NumPy's, dtypes without a kernel, schedules that do not fit the machines, and too little shared memory.
        """
        kinds = comm.gather_numbers([elements, like.dtype.num if is_numpy(like) else -1], f"{phase}: what is summed")
        plan = comm.together(lambda: _checked(schedule, comm, elements, like, kinds), (ValueError,))
        size, total = elements * like.dtype.itemsize, sum(_slots_of(schedule, comm))
        nbytes = total * (sum(_bytes_of_slot(size)) + np.dtype(np.int64).itemsize)
        window = SharedWindow.open(comm, nbytes, f"{phase} by {schedule.name} through shared memory")
        reach = size >= peer_memory.LONG and not plan.across and peer_memory.ranks_reach_each_other(comm)
        return cls(schedule, comm, elements, like.dtype, phase, attribute, plan, window, reach)

    def __call__(self, slots=None):
        """Return the sum over all ranks. Collective.

        Without ``slots`` it sums ``self.slots`` and returns a read-only array of the machine (of each rank if short).
        It is valid until the next call, or until the machine's lowest rank writes its slot 0 again; before that, all
        must call ``release`` or meet otherwise. With private arrays ``slots``, contiguous and as many as
        ``self.slots``, the sum is written to slots[0].
        """
        result = self._in_place() if slots is None else self._private(slots)
        self.comm.ledger.repeat(self.counted)
        return result

    def begin(self):
        """Do nothing: the call does the whole sum."""

    def advance(self) -> bool:
        """Do nothing, because ``begin`` has begun nothing."""
        return False

    def release(self):
        """Tell the machine's lowest rank, which waits, that this rank has read the sum. Collective on the machine."""
        self.window.reach(self.window.me == 0)

    def _lay_out(self, given):
        """Place every rank's slots in the window, ``given[i]`` of the machine's i-th rank, and the ring of buffers."""
        total, self._segment = sum(given), SEGMENT // self.dtype.itemsize
        each, buffers = _bytes_of_slot(self.elements * self.dtype.itemsize)
        self._table = total * (each + buffers)  # where the table of private arrays' addresses begins
        ring = buffers // BUFFERS
        keys = [(r, slot) for r, slots in zip(self.members, given) for slot in range(slots)]
        self._place = {key: number * each for number, key in enumerate(keys)}
        self._ring_place = {key: total * each + number * ring for number, key in enumerate(keys)}
        self._stride = total * ring
        self.slots = [self._array(self._place[key]) for key in keys if key[0] == self.comm.rank]
        self.result = self._array(self._place[self.members[0], 0])
        self._known, self._known_addresses = [], None  # the private slots of the last call
        self._slot_addresses = _addresses_of(self.slots)
        self._segments, self._free = 0, np.zeros(BUFFERS, np.int64)

    def _array(self, offset):
        return self.window.array(offset, self.elements, self.dtype)

    def _bind(self, schedule, plan, reach):
        """Convert the plan's ranks and slots to addresses in this process."""
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
        self._peers = None
        if reach:
            numbers = {key: number for number, key in enumerate(self._place)}
            self._peers = PeerMemory(self.window, self._table, numbers, share.inputs, sums, share.outputs[0][0],
                                     scratch, self.elements)
        self._calls, self._direct, self._seconds = 0, reach, [0.0, 0.0]  # of a call: copied; read where arrays lie
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
        elif self._peers is None:
            self._pipeline(addresses)
        else:
            self._faster(slots, addresses)
        return slots[0]

    def _faster(self, slots, addresses):
        """Sum private arrays in the way that was faster lately, as the machine's lowest rank has timed both.

        Cores may be near or far, which changes from second to second. A rank that is unwilling to have its arrays read
        makes all ranks copy, so no message is needed.
        """
        choice, call = divmod(self._calls, SAME_WAY)
        willing, direct = True, self._direct or call == 0
        if call == 0 and self.window.me == 0:
            copied, read = self._seconds
            willing = (read <= copied) != (choice % TRY_OTHER == TRY_OTHER - 1)
        begin = time.perf_counter()
        self._direct = direct and self._peers.add_up(slots, addresses, willing)
        if not self._direct:
            self._pipeline(addresses)
        took, self._calls = time.perf_counter() - begin, self._calls + 1
        self._seconds[self._direct] = took if call == 0 else min(took, self._seconds[self._direct])

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
        # the checks below cost microseconds
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


def _addresses_of(arrays):
    return np.array([array.ctypes.data for array in arrays], np.int64)


def _slots_of(schedule, comm) -> list[int]:
    """Return the number of slots of each rank on this machine."""
    return [max(1, len(schedule.inputs[r])) for r in comm.machine]


def _bytes_of_slot(nbytes) -> tuple[int, int]:
    """Return (bytes of a slot in the window, bytes of its buffers in the ring)."""
    each = aligned(nbytes)
    return each, BUFFERS * min(SEGMENT, each)


def _checked(schedule, comm, elements, like, kinds) -> SharedPlan:
    """Return this rank's plan. Raises ValueError if shared memory cannot do the sum. kinds: of all ranks."""
    if not is_numpy(like):
        raise ValueError(f"shared memory holds NumPy arrays, not {type(like).__module__} arrays; use ScheduleRunner")
    if computable(like.dtype) is None:
        raise ValueError(f"no shared-memory sum of {like.dtype}; there are {', '.join(DTYPES)}")
    if (kinds != kinds[0]).any():
        raise ValueError(f"ranks disagree: rank {comm.rank} sums {elements} elements of {like.dtype}")
    if schedule.ranks != comm.size or schedule.kind != "allreduce":
        raise ValueError(f"schedule {schedule.name} is an {schedule.kind} for {schedule.ranks} ranks, "
                         f"shared memory wants an allreduce for the communicator's {comm.size}")
    return plan_of(schedule, comm.machines, comm.rank)
