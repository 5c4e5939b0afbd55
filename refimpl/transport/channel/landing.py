"""The channel over two-sided messages: a receive is posted into the planned slot before the tensor is sent.

    |sequence number|tensor ...|        one message

The form for networks that only emulate one-sided access. A send is synchronous: it is through once the next receive is
posted, and that is the credit.
"""

import numpy as np
from mpi4py import MPI

from refimpl.transport.channel.slots import WORD, Channel

TAG = 1 << 14
"""Of the messages of the first slot; those of lanes (``messages``) are smaller. A communicator has one such channel."""


class LandingChannel(Channel):
    """See ``Channel``. A writer may be one tensor ahead: that one stays with it until the slot is released."""

    way, overhead, length = "landing", (WORD, 0), 0  # a message has a length of its own

    def make(self):
        mpi = self.comm.mpi
        self.memory, self.requests, self.arrived = {}, {}, {}
        self.tags = {name: tag for tag, name in enumerate(self.slots, TAG)}
        for slot in self.slots.values():
            if self.comm.rank in (slot.writer, slot.reader):
                self.memory[slot.name] = np.zeros(WORD + slot.nbytes, np.uint8)
            if self.comm.rank == slot.reader:
                self.requests[slot.name] = mpi.Recv_init(self.memory[slot.name], slot.writer, self.tags[slot.name])
                self.requests[slot.name].Start()

    def is_free(self, name, number):
        return name not in self.requests or self.requests[name].Test()

    def write(self, name, array, number):
        message = self.memory[name][:WORD + array.nbytes]
        message[:WORD].view(np.int64)[0] = number
        message[WORD:].view(array.dtype).reshape(array.shape)[...] = array
        self.requests[name] = self.comm.mpi.Issend(message, self.slots[name].reader, self.tags[name])

    def has_come(self, name, number):
        status = MPI.Status()
        if name in self.arrived:
            return True
        if not self.requests[name].Test(status):
            return False
        self.arrived[name] = status.Get_count(MPI.BYTE) - WORD
        if (found := int(self.memory[name][:WORD].view(np.int64)[0])) != number:
            self.comm.stop(ValueError(f"slot {name} got tensor {found} where {number} was due: a sequence number was "
                                      "used twice, or left out"))
        return True

    def tensor(self, name):
        slot = self.slots[name]
        shape = (-1, *slot.shape[1:]) if slot.bounded else slot.shape
        return self.memory[name][WORD:WORD + self.arrived[name]].view(slot.dtype).reshape(shape)

    def give_back(self, name, number):
        del self.arrived[name]
        self.requests[name].Start()

    def close(self):
        """Let go of the slots. Collective; no tensor is under way."""
        super().close()
        for name, request in self.requests.items():
            reads = self.comm.rank == self.slots[name].reader
            if reads:
                request.Cancel()
            self.comm.waiter.for_messages([request], [self.slots[name].reader], f"slot {name} (to be given up)")
            if reads:
                request.Free()
