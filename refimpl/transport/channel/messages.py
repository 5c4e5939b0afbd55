"""Messages of exchanges (pulls, pushes, dense pieces) between ranks, through the slots of a tensor channel.

    short            all parts are copied into the slot                                           n bytes
    long    shared   the slot has the array's address, and the reader reads the array there       n + 8
            rma      the array is put in pieces of a slot, without a copy                         n
            landing  MPI sends the array, without a copy                                          not through a slot
    and beside each tensor in a slot 24 bytes, landing: 8 (see ``slots.Channel``)

Each pair of ranks has a bounded slot in each direction. Some messages are still sent by MPI: prepared ones (those of an
allreduce), those between ranks without a slot, and long ones of shared if ranks cannot read each other's memory.
"""

from collections import deque

import numpy as np

from kernels.cross_memory import READ, transfer
from refimpl.transport.channel.slots import WORD, Channel, TensorSlot, following
from refimpl.transport.packed import SMALL, Taken, apart, form, groups, joined
from refimpl.transport.waiting import Wait

SLOT = {"shared": SMALL, "landing": SMALL, "rma": 1 << 16}
"""Way -> bytes of a slot. A longer message is long."""


def slots_between(machines, within: bool, nbytes: int) -> list[TensorSlot]:
    """Return a slot of ``nbytes`` in each direction for each pair of ranks; within: only of one machine. Local."""
    found = machines if within else [tuple(sorted(rank for ranks in machines for rank in ranks))]
    return [TensorSlot(f"from rank {a} to rank {b}", a, b, "uint8", (nbytes,), bounded=True)
            for ranks in found for a in ranks for b in ranks if a != b]


class ChannelMessages:
    """See ``protocol.Transport``. The constructor is local. channel: with the slots of ``slots_between``.

    pids: rank -> the number of its process, whose memory this rank can read; None: it cannot.
    copied: arrays that this rank has copied into slots.
    """

    reason = "arrays in host memory travel through the slots of a channel"
    has_tags = False  # a slot has one order; messages with a tag are sent by MPI

    def __init__(self, comm, channel: Channel, pids: dict[int, int] | None = None):
        self.otherwise, self.channel, self.waiter = comm.host_transport, channel, comm.waiter
        self.name, self.pids, self.copied, self.slot = channel.way, pids, 0, SLOT[channel.way]
        slots = channel.slots.items()
        self.out = {slot.reader: name for name, slot in slots if slot.writer == comm.rank}
        self.into = {slot.writer: name for name, slot in slots if slot.reader == comm.rank}
        self.leaving, self.coming = {}, {}  # slot -> deque of (parts, or a long array, and their ChannelPending)
        self.lent = {}  # slot -> (array that its reader has not read yet, its ChannelPending)
        self.rooms = {name: channel.space(name) for name in self.out.values()}
        self.due = {name: following(channel.counts[name]) for name in self.into.values()}
        self.words = np.empty(4, np.int64)
        self.prepare, self.wait_some, self.test_some, self.settle, self.close = (
            self.otherwise.prepare, self.otherwise.wait_some, self.otherwise.test_some, self.otherwise.settle,
            self.otherwise.close)

    def start(self, sends, receives, what: str, packed: bool = False, tag: int = 0):
        """Begin to send and to receive, see ``MpiMessages.start``. Collective over the ranks concerned."""
        if tag:
            return self.otherwise.start(sends, receives, what, packed, tag)
        pending = ChannelPending(self, what)
        others = [self._begin(pending, some, names, queues, packed) for some, names, queues in (
            (sends, self.out, self.leaving), (receives, self.into, self.coming))]
        if any(others):
            pending.others = self.otherwise.start(*others, what, packed)
        self.go_on()
        return pending

    def _begin(self, pending, messages, names, queues, packed):
        """Put messages into the queues of their slots; return those that MPI is to carry."""
        others = []
        for peer, parts in groups(messages) if packed else messages:
            parts = parts if type(parts) is list else [parts]
            name, size = names.get(peer), sum([part.nbytes for part in parts])
            if name is None or size > self.slot and not (packed and (self.name == "rma" or self.pids is not None)):
                others += [(peer, part) for part in parts] if packed else [(peer, joined(parts))]
                continue
            queue = queues.setdefault(name, deque())
            whole = np.frombuffer(joined(parts), np.uint8) if size > self.slot else None
            pieces = ([parts] if whole is None else [whole] if self.pids is not None else
                      [[whole[first:first + self.slot]] for first in range(0, size, self.slot)])
            queue.extend([(piece, pending) for piece in pieces])
            pending.left += len(pieces)
        return others

    def go_on(self) -> bool:
        """Move what can move now; return whether anything did. Local."""
        moved = bool(self.leaving) and self._leave()
        return bool(self.coming) and self._come() or moved

    def _leave(self) -> bool:
        """Write the messages whose slots are free now; return whether there were any."""
        channel, moved = self.channel, False
        for name, queue in [*self.leaving.items()]:
            while (queue or name in self.lent) and channel.is_free(name, number := channel.counts[name]):
                moved = True
                if name in self.lent:
                    self.lent.pop(name)[1].left -= 1
                    continue
                parts, pending = queue.popleft()
                if type(parts) is not list:  # the slot says where it lies
                    tensor = self.rooms[name][:WORD]
                    tensor.view(np.int64)[0] = _address(parts)
                    self.lent[name] = parts, pending
                else:
                    pending.left -= 1
                    if self.name == "rma" and len(parts) == 1 and type(parts[0]) is not Taken:
                        tensor = np.frombuffer(parts[0], np.uint8)
                    else:
                        tensor = self.rooms[name][:sum([part.nbytes for part in parts])]
                        self.copied += form(parts, tensor)
                channel.counts[name] = number = following(number)
                channel.tell(name, tensor, number)
                channel.sent[name] += len(tensor) + channel.overhead[0] + channel.length
            if not queue and name not in self.lent:
                del self.leaving[name]
        return moved

    def _come(self) -> bool:
        """Read the tensors that have come; return whether there were any."""
        channel, moved = self.channel, False
        for name, queue in [*self.coming.items()]:
            while queue and channel.has_come(name, number := self.due[name]):
                moved, self.due[name], channel.counts[name] = True, following(number), number
                (parts, pending), found = queue.popleft(), channel.tensor(name)
                if type(parts) is list:
                    apart(parts, found)
                elif transfer(READ, self.pids[channel.slots[name].writer], _address(parts),
                              int(found.view(np.int64)[0]), parts.nbytes, self.words):
                    channel.sent[name] += parts.nbytes
                else:
                    channel.window.fail(f"rank {self.waiter.rank} can no longer read another rank's memory")
                channel.give_back(name, number)
                channel.sent[name] += channel.overhead[1]
                pending.left -= 1
            if not queue:
                del self.coming[name]
        return moved


class ChannelPending:
    """Messages under way, begun by ``ChannelMessages.start``. left: how many.  others: those that MPI carries."""

    def __init__(self, transport: ChannelMessages, what: str):
        self.transport, self.what, self.left, self.others = transport, what, 0, None

    def advance(self):
        self.transport.go_on()
        if self.others is not None:
            self.others.advance()

    def wait(self):
        """Return when all messages are sent and received. Collective over their ranks. Raises SilentPeer, Aborted."""
        if self.left:
            wait = Wait(self.transport.waiter, self._late, self.what, self)
            while left := self.left:
                wait.pause()  # which lets the channel go on
                if self.left < left:
                    wait.progress()
        if self.others is not None:
            self.others.wait()

    def _late(self):
        here, slots = self.transport, self.transport.channel.slots
        out = [slots[name].reader for name, queue in here.leaving.items()
               if any(pending is self for _, pending in [*queue, here.lent.get(name, (None, None))])]
        return out + [slots[name].writer for name, queue in here.coming.items()
                      if any(pending is self for _, pending in queue)]


def _address(array) -> int:
    return array.__array_interface__["data"][0]
