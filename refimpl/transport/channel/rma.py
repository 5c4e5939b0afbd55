"""The channel over MPI's one-sided access: put the tensor, flush, then raise the signal, flush.

The first flush is needed because MPI does not order puts. A reader that reads its own memory during a put may see
anything. So it polls with an atomic operation that changes nothing. Where one-sided access is only emulated (TCP), a
flush waits until the target calls MPI (see ``flushes``).
"""

import numpy as np
from mpi4py import MPI

from refimpl.transport.channel.flushes import Flushes
from refimpl.transport.channel.slots import WORD, Channel
from refimpl.transport.memory.shared_memory import aligned


class RmaChannel(Channel):
    """See ``Channel``. A reader's memory holds signal, length, tensor; a writer's memory holds the credit.

    If a flush takes longer than the time-out, this rank names the other one and ends. No error can be raised then.
    """

    way = "rma"

    def make(self):
        ends = [0] * self.comm.size
        self.signals, self.credits, self.tensors = {}, {}, {}
        for name, slot in self.slots.items():
            self.signals[name], self.credits[name] = ends[slot.reader], ends[slot.writer]
            ends[slot.reader] += 2 * WORD + aligned(slot.nbytes)
            ends[slot.writer] += WORD
        self.window = self.comm.together(lambda: self.allocate(ends[self.comm.rank]))
        self.memory = np.frombuffer(self.window.tomemory(), np.uint8)
        for name, slot in self.slots.items():
            for rank, place in ((slot.reader, self.signals[name]), (slot.writer, self.credits[name])):
                if rank == self.comm.rank:
                    self.memory[place:place + WORD].view(np.int64)[0] = self.first
            if slot.reader == self.comm.rank:
                tensor = self.memory[self.signals[name] + 2 * WORD:][:slot.nbytes]
                self.tensors[name] = tensor.view(slot.dtype).reshape(slot.shape)
        self.window.Lock_all()
        self.flushes = Flushes(self.window, self.comm.waiter)
        self.comm.together(lambda: self._read(0) if ends[self.comm.rank] else None)

    def allocate(self, nbytes: int) -> MPI.Win:
        """Return a window with ``nbytes`` of this rank's memory. Collective."""
        try:
            return MPI.Win.Allocate(nbytes, 1, comm=self.comm.mpi)
        except (MPI.Exception, NotImplementedError) as problem:
            raise ValueError(f"this MPI cannot allocate a window of {nbytes:,} bytes ({problem}): take landing or "
                             "shared") from problem

    def is_free(self, name, number):
        return self._read(self.credits[name]) == number

    def has_come(self, name, number):
        return self._read(self.signals[name]) == number

    def _read(self, place):
        """Return a word of this rank's own memory that others write. With Flush_local instead of Flush, some MPI
        libraries would never complete the others' puts."""
        seen = np.zeros(1, np.int64)
        self.window.Fetch_and_op(seen, seen, self.comm.rank, place, MPI.NO_OP)
        self.window.Flush(self.comm.rank)
        return seen[0]

    def write(self, name, array, number):
        reader, place = self.slots[name].reader, self.signals[name]
        self.window.Put(np.ascontiguousarray(array), reader, place + 2 * WORD)
        if self.slots[name].bounded:
            self.window.Put(np.array([len(array)]), reader, place + WORD)
        self.flush(reader, name)
        self._tell(reader, place, number, name)

    def tell(self, name, tensor, number):
        self.write(name, tensor, number)  # without a copy

    def space(self, name):
        return np.empty(self.slots[name].shape, self.slots[name].dtype)

    def _tell(self, rank, place, number, name):
        self.window.Accumulate(np.array([number]), rank, place, MPI.REPLACE)
        self.flush(rank, name)

    def flush(self, rank: int, name: str):
        """Wait until all puts are in a rank's memory."""
        self.flushes.flush(rank, name)

    def tensor(self, name):
        self.window.Sync()
        whole, length = self.tensors[name], self.signals[name] + WORD
        return whole[:self.memory[length:][:WORD].view(np.int64)[0]] if self.slots[name].bounded else whole

    def give_back(self, name, number):
        self._tell(self.slots[name].writer, self.credits[name], number, name)

    def close(self):
        """Free the window. No tensor may be under way. Collective."""
        super().close()
        self.flushes.close()
        self.window.Unlock_all()
        self.window.Free()
