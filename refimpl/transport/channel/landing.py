"""The channel over two-sided messages: a receive is posted into the planned slot before the tensor is sent.

    |sequence number|tensor ...|        one message

This way is for networks that only emulate one-sided access. Nothing is overwritten: a message waits until the receive
is posted again. Meanwhile MPI keeps small messages at the reader, so a writer could be far ahead. Therefore each
AHEAD-th send is synchronous: it completes when its receive is posted, and then the earlier ones have been received.
This is the credit. Most sends need none.
"""

from typing import NamedTuple

import numpy as np
from mpi4py import MPI

from refimpl.transport.channel.slots import WORD, Channel

TAG = 1 << 14
"""The tag of the first slot. Tags of lanes (``messages``) are smaller. A communicator has only one such channel."""
AHEAD = 16
"""How many small tensors a writer may be ahead of its reader. An acknowledgement costs a message, so few are sent."""
LOOKS = 20  # tests of a request, before this rank waits as it does for other messages


class _Message(NamedTuple):
    """memory: number, then tensor.  number, tensor: views of it.  sends: requests, plain and synchronous."""

    memory: np.ndarray
    number: memoryview
    tensor: np.ndarray
    sends: tuple


class LandingChannel(Channel):
    """See ``Channel``. A writer may be up to AHEAD tensors ahead."""

    way, overhead, length = "landing", (WORD, 0), 0  # MPI knows the length of a message

    def make(self):
        mpi = self.comm.mpi
        self.messages, self.requests, self.arrived, self.status = {}, {}, {}, MPI.Status()
        self.tags = {name: tag for tag, name in enumerate(self.slots, TAG)}
        for slot in self.slots.values():
            if self.comm.rank not in (slot.writer, slot.reader):
                continue
            memory, tag = np.zeros(WORD + slot.nbytes, np.uint8), self.tags[slot.name]
            sends = ()
            if self.comm.rank == slot.reader:
                self.requests[slot.name] = mpi.Recv_init(memory, slot.writer, tag)
                self.requests[slot.name].Start()
            else:
                sends = mpi.Send_init(memory, slot.reader, tag), mpi.Ssend_init(memory, slot.reader, tag)
                self.requests[slot.name] = MPI.REQUEST_NULL
            self.messages[slot.name] = _Message(memory, memoryview(memory[:WORD].view(np.int64)),
                                                memory[WORD:].view(slot.dtype).reshape(slot.shape), sends)

    def is_free(self, name, number):
        return self.requests[name].Test()

    def space(self, name):
        return self.messages[name].tensor

    def tell(self, name, tensor, number):
        message, synchronous = self.messages[name], number % AHEAD == 0
        message.number[0] = number
        if tensor.nbytes == message.tensor.nbytes:
            self.requests[name] = message.sends[synchronous]
            self.requests[name].Start()
            return
        send = self.comm.mpi.Issend if synchronous else self.comm.mpi.Isend
        self.requests[name] = send(message.memory[:WORD + tensor.nbytes], self.slots[name].reader, self.tags[name])

    def has_come(self, name, number):
        if name in self.arrived:
            return True
        if not self.requests[name].Test(self.status):
            return False
        self.arrived[name] = self.status.Get_count(MPI.BYTE) - WORD
        if (found := self.messages[name].number[0]) != number:
            self.comm.stop(ValueError(f"slot {name} got tensor {found} where {number} was due: a sequence number was "
                                      "used twice, or left out"))
        return True

    def sleep(self, name, number, reads):
        is_done = self.has_come if reads else self.is_free
        return any(is_done(name, number) for _ in range(LOOKS))

    def tensor(self, name):
        whole, nbytes = self.messages[name].tensor, self.arrived[name]
        return whole if nbytes == whole.nbytes else whole[:nbytes // whole[:1].nbytes]

    def give_back(self, name, number):
        del self.arrived[name]
        self.requests[name].Start()

    def close(self):
        """Free the slots. No tensor may be under way. Collective."""
        super().close()
        for name, request in self.requests.items():
            reads = self.comm.rank == self.slots[name].reader
            if reads:
                request.Cancel()
            self.comm.waiter.for_messages([request], [self.slots[name].reader], f"slot {name} (to be given up)")
            for each in [request] if reads else self.messages[name].sends:
                each.Free()
