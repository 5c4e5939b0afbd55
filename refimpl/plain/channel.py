"""A tensor channel: one rank writes into another's memory, where the plan has reserved a slot for each tensor.

Nothing is copied into messages, parsed or negotiated while training, because the plan says where each tensor goes. A
slot has three parts:
    signal   how many tensors have been written here      set by the writer, when the tensor is complete
    credit   how many have been read                      set by the reader; the slot may be overwritten then
    payload  the tensor

static   The shape is known: the slot lies at the reader.            n + 8 + 8 bytes for n bytes of payload
         The writer puts the payload, then the signal. The reader uses it in place, then gives the credit back.
dynamic  The shape varies: the payload stays at the writer.          n + m + 8 bytes, m = 24 + 8 · dimensions
         The writer puts dtype and shape, then the signal: m bytes. The reader fetches the payload, then returns credit.

MPI does not keep the order of puts, so a flush stands between payload and signal. While a put arrives, an ordinary read
may see anything; so signals and credits are read by atomic operations. Source: Xue et al., arXiv 1805.08430.

    mpirun -n 4 python -m refimpl.plain.channel
"""

import time
from collections import Counter
from typing import NamedTuple

import numpy as np
from mpi4py import MPI

WORD = 8
SIGNAL, CREDIT, SHAPE, PAYLOAD = 0, WORD, 2 * WORD, 8 * WORD
"""Where the parts of a slot begin. SHAPE: dtype, number of dimensions, up to four sizes."""
DTYPES = ["float32", "float64", "int64", "uint8"]


class Slot(NamedTuple):
    """Where a tensor goes: from rank ``writer`` to rank ``reader``, at most ``capacity`` bytes; static or dynamic."""

    name: str
    writer: int
    reader: int
    capacity: int
    dynamic: bool = False


class Channel:
    """The slots of a plan in a window, at the same offsets on every rank. Collective to make and to close.

    timeout: seconds after which a wait raises.  sent: slot -> bytes that this rank has put or fetched.
    """

    def __init__(self, comm, slots, timeout=60.0):
        self.rank, self.timeout, self.offsets, size = comm.Get_rank(), timeout, {}, 0
        self.slots = {slot.name: slot for slot in slots}
        for slot in slots:
            self.offsets[slot.name], size = size, size + PAYLOAD + -(-slot.capacity // WORD) * WORD  # in whole words
        self.count, self.sent = Counter(), Counter()  # count: slot -> tensors that this rank has written or read
        self.window = MPI.Win.Allocate(size, 1, comm=comm)
        self.memory = np.frombuffer(self.window.tomemory(), np.uint8)
        self.memory[:] = 0
        comm.Barrier()
        self.window.Lock_all()

    def put_signal(self, name, array):
        """Wait until the reader has read the last tensor, then write ``array``. This rank is the slot's writer."""
        slot, payload = self.slots[name], array.reshape(-1).view(np.uint8)
        if payload.nbytes > slot.capacity:
            raise ValueError(f"slot {name} has {slot.capacity} bytes; the tensor has {payload.nbytes}")
        self.wait(name, CREDIT, f"rank {slot.reader} to read slot {name}")
        if slot.dynamic:
            self.here(name, PAYLOAD, payload.nbytes)[:] = payload
            self.window.Sync()  # what was written into this rank's memory can now be fetched
            self.put(name, slot.reader, SHAPE, np.array([DTYPES.index(array.dtype.name), array.ndim, *array.shape]))
        else:
            self.put(name, slot.reader, PAYLOAD, payload)
        self.count[name] += 1
        self.put_count(name, slot.reader, SIGNAL)

    def wait_signal(self, name, dtype=None, shape=None):
        """Wait for the next tensor in a slot of which this rank is the reader; return a view of the slot.

        dtype, shape: of a static tensor. A dynamic one says its own, and is fetched from its writer.
        """
        slot = self.slots[name]
        self.count[name] += 1
        self.wait(name, SIGNAL, f"rank {slot.writer} to write slot {name}")
        if slot.dynamic:
            code, dimensions, *sizes = self.here(name, SHAPE, PAYLOAD - SHAPE).view(np.int64)
            dtype, shape = DTYPES[code], tuple(sizes[:dimensions])
        tensor = self.here(name, PAYLOAD, np.dtype(dtype).itemsize * int(np.prod(shape)))
        if slot.dynamic:
            self.window.Get(tensor, slot.writer, self.offsets[name] + PAYLOAD)
            self.window.Flush(slot.writer)
            self.sent[name] += tensor.nbytes
        return tensor.view(dtype).reshape(shape)

    def release(self, name):
        """Give the slot back: the writer may overwrite it, so the view of it is not to be used any more."""
        self.put_count(name, self.slots[name].writer, CREDIT)

    def here(self, name, part, size):
        """Return ``size`` bytes of this rank's own memory, beginning at this part of a slot."""
        return self.memory[self.offsets[name] + part:][:size]

    def put(self, name, target, part, array):
        """Put an array into a part of a slot of rank ``target``, and wait until it is there."""
        self.window.Put(array, target, self.offsets[name] + part)
        self.window.Flush(target)
        self.sent[name] += array.nbytes

    def put_count(self, name, target, part):
        """Put how many tensors this rank has written, or read: a signal or a credit. Atomic, because it is polled."""
        self.window.Accumulate(np.array([self.count[name]]), target, self.offsets[name] + part, MPI.REPLACE)
        self.window.Flush(target)
        self.sent[name] += WORD

    def wait(self, name, part, what):
        """Read the signal or credit on this rank again and again, until it has reached ``count[name]``."""
        seen, end = np.zeros(1, np.int64), time.monotonic() + self.timeout
        while seen[0] < self.count[name]:
            if time.monotonic() > end:
                raise TimeoutError(f"rank {self.rank} waited {self.timeout:g} s for {what}")
            self.window.Fetch_and_op(seen, seen, self.rank, self.offsets[name] + part, MPI.NO_OP)  # an atomic read
            self.window.Flush(self.rank)  # with Flush_local some MPI libraries never see the other side's put
        self.window.Sync()

    def close(self):
        """Free the window. Collective."""
        self.window.Unlock_all()
        self.window.Free()


def main(comm=MPI.COMM_WORLD, steps=3):
    """Each of two ranks or more sends its right neighbour a tensor of known shape and one whose rows vary."""
    rank, size, left = comm.rank, comm.size, (comm.rank - 1) % comm.size
    channel = Channel(comm, [Slot(f"{kind} of rank {r}", r, (r + 1) % size, 64, kind == "dynamic")
                             for kind in ("static", "dynamic") for r in range(size)])
    heard = []
    for step in range(steps):
        channel.put_signal(f"static of rank {rank}", np.full(8, 10.0 * rank + step))
        channel.put_signal(f"dynamic of rank {rank}", np.full((step, 2), 10.0 * rank + step))
        heard += [channel.wait_signal(f"static of rank {left}", "float64", (8,))[0],
                  channel.wait_signal(f"dynamic of rank {left}").shape]
        for kind in ("static", "dynamic"):
            channel.release(f"{kind} of rank {left}")
    heard = ", ".join(map(str, heard))
    for line in comm.gather(f"rank {rank}: heard {heard} from rank {left}; moved bytes {dict(channel.sent)}") or []:
        print(line, flush=True)
    channel.close()


if __name__ == "__main__":
    main()
