"""A tensor channel: one rank writes into another's memory, where the plan has reserved a slot for each tensor.

Nothing is parsed or negotiated while training, because the plan says where each tensor goes. A slot has three parts:
    signal   how many tensors have been written here      set by the writer, when the tensor is complete
    credit   how many have been read                      set by the reader; the slot may be overwritten then
    payload  the tensor; in a dynamic slot its dtype and shape come before it
static   The writer puts the payload, then the signal. The reader uses it in place, then gives the credit back:
         n + 8 + 8 bytes for n bytes of payload.
dynamic  The shape varies. The writer puts dtype and shape, then the signal: m = 24 + 8 · dimensions bytes. The reader
         fetches the payload from the writer's memory, then gives the credit back: n + m + 8 bytes.
In MPI's words, a *window* is memory that other ranks may use, a *put* writes into it, and a *flush* waits for the puts.
MPI does not keep the order of puts, so a flush stands between payload and signal. While a put arrives, an ordinary read
may see anything; so signals and credits are read by atomic operations. Source: Xue et al., arXiv 1805.08430.

    mpirun -n 4 python -m refimpl.plain.collectives.channel
"""

import time
from collections import Counter, namedtuple

import numpy as np
from mpi4py import MPI

SIGNAL, CREDIT, SHAPE, PAYLOAD = 0, 8, 16, 64  # where the parts begin; SHAPE: dtype, dimensions, up to four sizes
DTYPES = ["float32", "float64", "int64", "uint8"]
Slot = namedtuple("Slot", "name writer reader capacity dynamic", defaults=[False])
"""Where a tensor goes: from rank ``writer`` to rank ``reader``, at most ``capacity`` bytes; static or dynamic."""


class Channel:
    """A window for each slot of a plan. count: slot -> how many tensors this rank has written or read there.

    The constructor and ``close`` are collective.
    timeout: seconds after which a wait raises.  sent: slot -> bytes that this rank has put or fetched.
    """

    def __init__(self, comm, slots, timeout=60.0):
        self.rank, self.timeout, self.slots = comm.Get_rank(), timeout, {slot.name: slot for slot in slots}
        self.count, self.sent = {name: np.zeros(1, np.int64) for name in self.slots}, Counter()
        self.windows = {slot.name: MPI.Win.Allocate(PAYLOAD + slot.capacity, 1, comm=comm) for slot in slots}
        self.memory = {name: np.frombuffer(window.tomemory(), np.uint8) for name, window in self.windows.items()}
        for name, window in self.windows.items():
            self.memory[name][:] = 0
            comm.Barrier()
            window.Lock_all()

    def put_signal(self, name, array):
        """On the slot's writer: wait until the reader has read the last tensor, then write ``array``."""
        slot, payload = self.slots[name], array.reshape(-1).view(np.uint8)
        if payload.nbytes > slot.capacity:
            raise ValueError(f"slot {name} has {slot.capacity} bytes; the tensor has {payload.nbytes}")
        self.wait(name, CREDIT, f"rank {slot.reader} to read slot {name}")
        if slot.dynamic:
            self.memory[name][PAYLOAD:][:payload.nbytes] = payload
            self.windows[name].Sync()  # what was written into this rank's memory can now be fetched
            self.put(name, slot.reader, SHAPE, np.array([DTYPES.index(array.dtype.name), array.ndim, *array.shape]))
        else:
            self.put(name, slot.reader, PAYLOAD, payload)
        self.count[name] += 1
        self.put(name, slot.reader, SIGNAL, self.count[name])

    def wait_signal(self, name, dtype=None, shape=None):
        """Wait for the next tensor; return a view of it, valid until ``release``. dtype, shape: of a static tensor."""
        slot, memory = self.slots[name], self.memory[name]
        self.count[name] += 1
        self.wait(name, SIGNAL, f"rank {slot.writer} to write slot {name}")
        if slot.dynamic:
            code, dimensions, *sizes = memory[SHAPE:PAYLOAD].view(np.int64)
            dtype, shape = DTYPES[code], tuple(sizes[:dimensions])
        tensor = memory[PAYLOAD:][:np.dtype(dtype).itemsize * int(np.prod(shape))]
        if slot.dynamic:
            self.windows[name].Get(tensor, slot.writer, PAYLOAD)
            self.windows[name].Flush(slot.writer)
            self.sent[name] += tensor.nbytes
        return tensor.view(dtype).reshape(shape)

    def release(self, name):
        """Give the slot back: the writer may overwrite it."""
        self.put(name, self.slots[name].writer, CREDIT, self.count[name])

    def put(self, name, rank, part, array):
        """Put an array into a part of a slot at a rank, and wait until it is there."""
        if part in (SIGNAL, CREDIT):
            self.windows[name].Accumulate(array, rank, part, MPI.REPLACE)  # atomic, because it is polled
        else:
            self.windows[name].Put(array, rank, part)
        self.windows[name].Flush(rank)
        self.sent[name] += array.nbytes

    def wait(self, name, part, what):
        """Read the signal or credit on this rank again and again, until it has reached ``count[name]``."""
        seen, end = np.zeros(1, np.int64), time.monotonic() + self.timeout
        while seen < self.count[name]:
            if time.monotonic() > end:
                raise TimeoutError(f"rank {self.rank} waited {self.timeout:g} s for {what}")
            self.windows[name].Fetch_and_op(seen, seen, self.rank, part, MPI.NO_OP)  # reads it into ``seen``
            self.windows[name].Flush(self.rank)  # with Flush_local some MPI libraries never see the other side's put
        self.windows[name].Sync()

    def close(self):
        """Free the windows. Collective."""
        for window in self.windows.values():
            window.Unlock_all()
            window.Free()


def main(comm=MPI.COMM_WORLD):
    """Each rank sends its right neighbour two tensors: one of a fixed shape, one whose number of rows varies."""
    rank, left, heard = comm.rank, (comm.rank - 1) % comm.size, []
    channel = Channel(comm, [Slot(f"{kind} {r}", r, (r + 1) % comm.size, 64, kind == "dynamic")
                             for kind in ("static", "dynamic") for r in range(comm.size)])
    for step in range(3):
        for kind, shape in (("static", (2,)), ("dynamic", (step, 2))):
            channel.put_signal(f"{kind} {rank}", np.full(shape, 10.0 * rank + step))
            heard += [channel.wait_signal(f"{kind} {left}", "float64", (2,)).tolist()]
            channel.release(f"{kind} {left}")
    print(f"rank {rank} heard {heard} from rank {left}, and moved {dict(channel.sent)} bytes", flush=True)
    channel.close()


if __name__ == "__main__":
    main()
