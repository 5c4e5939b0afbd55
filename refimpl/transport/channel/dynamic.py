"""Dynamic slots: the writer tells what a tensor is, the reader allocates and fetches it.

    |place, dtype|size|size| ...       the description: it travels as a bounded tensor of a slot does

A dynamic slot needs no bound, and little memory before the first tensor. Bytes of n bytes of payload with d sizes,
signal and credit included: n + 32 + 8 d (n + m + 8 with m = 24 + 8 d); by landing, which has no word for credit or
length, n + 16 + 8 d. Each way has its own place for payloads and its own way to fetch one:

    shared    a memory file of the writer's, which the reader maps: nothing is copied at the reader
    rma       memory that the writer attaches to a dynamic window: the reader gets it
    landing   a second message, whose receive the reader posts now
"""

import mmap
import os

import numpy as np
from mpi4py import MPI

from refimpl.transport.channel.flushes import Flushes

SIZES = 4
"""How many sizes a tensor may have at most."""
DTYPES = ("float32", "float64", "int64", "int32", "uint8", "float16", "bool")
_PLACE = (1 << 56) - 1  # the other bits of the first word are the dtype's number


def described(array: np.ndarray, place: int) -> np.ndarray:
    """Return (1 + sizes,) int64: the description of a tensor whose payload is at ``place``. Local.

    Raises ValueError for another dtype, or for more sizes, than a description has room for.
    """
    if array.dtype.name not in DTYPES or array.ndim > SIZES:
        raise ValueError(f"a dynamic slot takes up to {SIZES} sizes and one of {', '.join(DTYPES)}; the tensor is "
                         f"{array.shape} {array.dtype}")
    return np.array([DTYPES.index(array.dtype.name) << 56 | place, *array.shape])


def place_dtype_shape(description: np.ndarray) -> tuple[int, np.dtype, tuple[int, ...]]:
    """Return (place, dtype, shape) of a description. Local."""
    first, *shape = description.tolist()
    return first & _PLACE, np.dtype(DTYPES[first >> 56]), tuple(shape)


class MappedPayloads:
    """In memory files of the writers. Local to make. at_reader: which side counts the payload's bytes."""

    at_reader = True

    def __init__(self, channel):
        window = channel.window
        self.pids = dict(zip(window.ranks, window.pids.tolist()))
        self.slots, self.files, self.maps = channel.slots, {}, {}

    def keep(self, name: str, array: np.ndarray) -> int:
        """Copy a tensor to where its reader can fetch it; return its place: the writer's number of the file."""
        if name not in self.files:
            self.files[name] = os.memfd_create("refimpl-payload")
        memory = self._mapped(name, self.files[name], array.nbytes, True)
        memory[:array.nbytes].view(array.dtype).reshape(array.shape)[...] = array
        return self.files[name]

    def fetch(self, name: str, place: int, dtype, shape) -> np.ndarray:
        """Return the tensor, in the writer's file."""
        nbytes = dtype.itemsize * int(np.prod(shape))
        memory = self.maps.get(name)
        if memory is None or len(memory) < nbytes:
            file = os.open(f"/proc/{self.pids[self.slots[name].writer]}/fd/{place}", os.O_RDWR)
            try:
                memory = self._mapped(name, file, nbytes, False)
            finally:
                os.close(file)
        return memory[:nbytes].view(dtype).reshape(shape)

    def _mapped(self, name, file, nbytes, grows):
        memory = self.maps.get(name)
        if memory is None or len(memory) < nbytes:
            if grows:
                os.ftruncate(file, max(nbytes, 2 * os.fstat(file).st_size, 1))
            self.maps[name] = memory = np.frombuffer(mmap.mmap(file, os.fstat(file).st_size), np.uint8)
        return memory

    def close(self):
        """Let go of the files."""
        for file in self.files.values():
            os.close(file)


class AttachedPayloads:
    """In memory attached to a dynamic window. Collective to make and to close."""

    at_reader = True

    def __init__(self, channel):
        self.comm, self.slots, self.memory = channel.comm, channel.slots, {}
        self.window = self.comm.together(lambda: self.create(), (ValueError,))
        self.window.Lock_all()
        self.flushes = Flushes(self.window, self.comm.waiter)

    def create(self) -> MPI.Win:
        """Return a dynamic window. Collective. Raises ValueError where MPI cannot."""
        try:
            return MPI.Win.Create_dynamic(comm=self.comm.mpi)
        except (MPI.Exception, NotImplementedError) as problem:
            raise ValueError(f"this MPI cannot make a dynamic window ({problem}): take landing or shared, or "
                             "slots that are not dynamic") from problem

    def keep(self, name: str, array: np.ndarray) -> int:
        """Copy a tensor to where its reader can fetch it; return its place: an address."""
        memory = self.memory.get(name)
        if memory is None or len(memory) < array.nbytes:
            if memory is not None:
                self.window.Detach(memory)
            self.memory[name] = memory = np.empty(max(array.nbytes, 2 * len(memory) if memory is not None else 64),
                                                  np.uint8)
            self.window.Attach(memory)
        memory[:array.nbytes].view(array.dtype).reshape(array.shape)[...] = array
        self.window.Sync()
        return MPI.Get_address(memory)

    def fetch(self, name: str, place: int, dtype, shape) -> np.ndarray:
        """Return the tensor, in an array of its own."""
        tensor, writer = np.empty(shape, dtype), self.slots[name].writer
        if tensor.nbytes:
            self.window.Get([tensor, MPI.BYTE], writer, [place, tensor.nbytes, MPI.BYTE])
            self.flushes.flush(writer, name)
        return tensor

    def close(self):
        """Free the window."""
        self.flushes.close()
        for memory in self.memory.values():
            self.window.Detach(memory)
        self.window.Unlock_all()
        self.window.Free()


class PostedPayloads:
    """In messages. Local to make. tags: name -> of its payloads."""

    at_reader = False

    def __init__(self, channel, tags: dict[str, int]):
        self.comm, self.slots, self.tags, self.sent = channel.comm, channel.slots, tags, {}

    def keep(self, name: str, array: np.ndarray) -> int:
        """Copy a tensor and begin to send it; a message has no place."""
        reader, copy = self.slots[name].reader, array.copy()
        if name in self.sent:
            self._wait(self.sent[name][0], reader, name, "to be fetched")
        self.sent[name] = self.comm.mpi.Isend([copy, MPI.BYTE], reader, self.tags[name]), copy
        return 0

    def fetch(self, name: str, place: int, dtype, shape) -> np.ndarray:
        """Return the tensor, in an array of its own."""
        tensor, writer = np.empty(shape, dtype), self.slots[name].writer
        self._wait(self.comm.mpi.Irecv([tensor, MPI.BYTE], writer, self.tags[name]), writer, name, "to be fetched")
        return tensor

    def _wait(self, request, peer, name, what):
        self.comm.waiter.for_messages([request], [peer], f"slot {name} ({what})")

    def close(self):
        """Wait until all has gone."""
        for name, (request, _) in self.sent.items():
            self._wait(request, self.slots[name].reader, name, "to be fetched")
