"""Messages between ranks through the slots of a tensor channel: what an exchange moves, pulls, pushes, dense pieces.

    a message of n bytes: n // SLOT whole pieces, then a shorter one, perhaps empty, which ends it
    bytes: n + 24 (n // SLOT + 1); landing: n + 8 (n // SLOT + 1)

Each pair of ranks has a bounded slot each way. What is prepared, to be sent again and again (an allreduce's messages),
stays with MPI, and so do ranks without a slot.
"""

from collections import deque
from dataclasses import dataclass

import numpy as np

from refimpl.transport.channel.slots import Channel, TensorSlot
from refimpl.transport.packed import buffers, pack, unpack
from refimpl.transport.waiting import Wait

SLOT = 1 << 16


def slots_between(machines, within: bool) -> list[TensorSlot]:
    """Return a slot for each pair of ranks, each way; within: of one machine. Local."""
    groups = machines if within else [tuple(sorted(rank for ranks in machines for rank in ranks))]
    return [TensorSlot(f"from rank {a} to rank {b}", a, b, "uint8", (SLOT,), bounded=True)
            for ranks in groups for a in ranks for b in ranks if a != b]


@dataclass
class _Message:
    """peer: its other end.  content: (n,) uint8.  done: bytes that are through."""

    peer: int
    content: np.ndarray
    done: int = 0
    through: bool = False

    def went(self, piece):
        self.done += len(piece)
        self.through = len(piece) < SLOT


class ChannelMessages:
    """See ``protocol.Transport``. Local to make, over a channel with the slots of ``slots_between``."""

    reason = "arrays in host memory travel through the slots of a channel"

    def __init__(self, comm, channel: Channel):
        self.otherwise, self.channel, self.waiter = comm.host_transport, channel, comm.waiter
        self.name = channel.way
        slots = channel.slots.items()
        self.out = {slot.reader: name for name, slot in slots if slot.writer == comm.rank}
        self.into = {slot.writer: name for name, slot in slots if slot.reader == comm.rank}
        self.leaving, self.coming = {peer: deque() for peer in self.out}, {peer: deque() for peer in self.into}
        self.prepare, self.wait_some, self.test_some, self.settle, self.close = (
            self.otherwise.prepare, self.otherwise.wait_some, self.otherwise.test_some, self.otherwise.settle,
            self.otherwise.close)

    def start(self, sends, receives, what: str, packed: bool = False, tag: int = 0):
        """Begin to send and to receive, see ``MpiMessages.start``. Collective over the ranks concerned."""
        if tag:
            return self.otherwise.start(sends, receives, what, packed, tag)
        rest = []
        if packed:
            sends, (receives, rest) = pack(sends), buffers(receives)
        messages = []
        for some, queues in ((sends, self.leaving), (receives, self.coming)):
            for peer, array in some:
                if peer in queues:
                    messages.append(_Message(peer, np.frombuffer(array, np.uint8)))
                    queues[peer].append(messages[-1])
        others = ([(peer, array) for peer, array in some if peer not in self.out] for some in (sends, receives))
        pending = ChannelPending(self, messages, self.otherwise.start(*others, what), what, rest)
        self.go_on()
        return pending

    def go_on(self) -> bool:
        """Move all pieces that can move now; return whether any did. Local."""
        moved = [self._leave(peer, queue) for peer, queue in self.leaving.items() if queue]
        return any([*moved, *(self._come(peer, queue) for peer, queue in self.coming.items() if queue)])

    def _leave(self, peer, queue):
        name, moved = self.out[peer], False
        while queue and self.channel.is_free(name, self.channel.counts[name]):
            piece = queue[0].content[queue[0].done:queue[0].done + SLOT]
            self.channel.put_signal(name, piece)
            moved = self._went(queue, piece)
        return moved

    def _come(self, peer, queue):
        name, moved = self.into[peer], False
        while queue and self.channel.next_has_come(name):
            message, piece = queue[0], self.channel.wait_signal(name)
            message.content[message.done:message.done + len(piece)] = piece
            self.channel.release(name)
            moved = self._went(queue, piece)
        return moved

    @staticmethod
    def _went(queue, piece):
        queue[0].went(piece)
        if queue[0].through:
            queue.popleft()
        return True


class ChannelPending:
    """Messages under way, begun by ``ChannelMessages.start``; pending: those that MPI carries."""

    def __init__(self, transport: ChannelMessages, messages, pending, what: str, packed):
        self.transport, self.messages, self.pending, self.what = transport, messages, pending, what
        self.packed = packed

    def advance(self):
        self.transport.go_on()
        self.pending.advance()

    def wait(self):
        """Return when all has come and gone. Collective over the ranks concerned. Raises SilentPeer, Aborted."""
        wait = Wait(self.transport.waiter, lambda: [m.peer for m in self.messages if not m.through], self.what, self)
        while not all(message.through for message in self.messages):
            if self.transport.go_on():
                wait.progress()
            else:
                wait.pause()
        self.pending.wait()
        unpack(self.packed)
