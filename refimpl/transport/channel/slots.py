"""Slots, and the base class of the tensor channel's ways: credits, sequence numbers, bytes, waits with a time-out."""

import zlib
from typing import NamedTuple

import numpy as np

from refimpl.transport.communicator import Communicator
from refimpl.transport.waiting import Wait

WORD = 8  # bytes of a signal, of a credit, of a length
LAST = (1 << 63) - 1


class TensorSlot(NamedTuple):
    """The memory for a tensor that goes from rank ``writer`` to rank ``reader``.

    dtype, shape: of the tensor.  bounded: a tensor may have fewer rows than ``shape``; their number travels with it.
    """

    name: str
    writer: int
    reader: int
    dtype: str
    shape: tuple[int, ...]
    bounded: bool = False

    @property
    def nbytes(self) -> int:
        """The bytes of the largest tensor."""
        return np.dtype(self.dtype).itemsize * int(np.prod(self.shape))


def following(number: int) -> int:
    """Return the sequence number of the next tensor: an int64 that wraps. Local."""
    return -number - 1 if number == LAST else number + 1


class Channel:
    """The slots of a plan, in one of the ways. ``open`` and ``close`` are collective; all other methods are local.

    A slot holds one tensor. Its writer waits for the reader's credit before it writes the next one. A wait raises
    SilentPeer, with the missing rank, after the communicator's time-out, and Aborted after an abort message.
    slots: name -> TensorSlot, of all ranks.  first: the sequence number before the first tensor.
    sent: name -> bytes that this rank has sent; for a tensor of n bytes:
        shared, rma    n + 8 by the writer (16 if bounded: the length), 8 by the reader
        landing        n + 8 by the writer
    """

    way: str
    overhead = WORD, WORD
    """The bytes beside the tensor that its writer sends, and its reader."""
    length = WORD
    """The bytes of a bounded tensor's number of rows."""

    def __init__(self, comm: Communicator, slots: list[TensorSlot], first: int = 0):
        self.comm, self.slots, self.first = comm, {slot.name: slot for slot in slots}, first
        self.counts = dict.fromkeys(self.slots, first)
        self.sent = dict.fromkeys(self.slots, 0)

    @classmethod
    def open(cls, comm: Communicator, slots: list[TensorSlot], first: int = 0) -> "Channel":
        """Return a channel with these slots, which are the same on all ranks. Collective.

        Raises CollectiveError on all ranks if their slots differ, or if this way does not work for these slots.
        """
        same = comm.gather_numbers([zlib.crc32(repr(slots).encode())], "the slots of a channel")[:, 0]
        channel = cls(comm, slots, first)
        comm.together(lambda: channel.check(same), (ValueError,))
        channel.make()
        comm.meet("the slots of a channel")
        return channel

    def check(self, same):
        """Raise ValueError for wrong slots. same: every rank's checksum of its slots."""
        if others := np.flatnonzero(same != same[0]).tolist():
            raise ValueError(f"the slots of the channel are not the same on ranks 0 and {others[0]}: give all ranks "
                             "the same plan")
        for slot in self.slots.values():
            if slot.writer == slot.reader or not {slot.writer, slot.reader} <= set(range(self.comm.size)):
                raise ValueError(f"slot {slot.name} goes from rank {slot.writer} to rank {slot.reader}: it needs two "
                                 f"of the ranks 0 to {self.comm.size - 1}")

    def put_signal(self, name: str, array):
        """Write a tensor into an unbounded slot whose writer this rank is, and tell the reader.

        Returns when ``array`` may be written again. If the tensor does not fit, all waiting ranks stop (Aborted).
        """
        slot, number = self.slots[name], self.counts[name]
        if array.shape != slot.shape or array.dtype != slot.dtype:
            self.comm.stop(ValueError(f"slot {name} has room for {slot.shape} {slot.dtype}; the tensor is "
                                      f"{array.shape} {array.dtype}: plan a slot of that size"))
        if not self.is_free(name, number):
            self._wait(self.is_free, name, number, slot.reader, "to be read")
        self.counts[name] = number = following(number)
        self.write(name, array, number)
        self.sent[name] += array.nbytes + self.overhead[0]

    def wait_signal(self, name: str):
        """Wait for the next tensor in a slot whose reader this rank is; return a view of the slot.

        The view is valid until ``release``.
        """
        self.counts[name] = number = following(self.counts[name])
        if not self.sleep(name, number, True):
            self._wait(self.has_come, name, number, self.slots[name].writer, "to be written")
        return self.tensor(name)

    def release(self, name: str):
        """Give the slot back to its writer, by the credit."""
        self.give_back(name, self.counts[name])
        self.sent[name] += self.overhead[1]

    def _wait(self, is_done, name, number, other, what):
        wait = Wait(self.comm.waiter, lambda: None if is_done(name, number) else [other], f"slot {name} ({what})", self)
        while not self.sleep(name, number, is_done == self.has_come):
            wait.pause()

    def sleep(self, name: str, number: int, reads: bool) -> bool:
        """Return ``has_come`` or, if not reads, ``is_free``. A way may first wait a while for it."""
        return (self.has_come if reads else self.is_free)(name, number)

    def make(self):
        """Allocate what this way needs. Collective."""
        raise NotImplementedError

    def is_free(self, name: str, number: int) -> bool:
        """Return whether tensor ``number``, the last one written, has been read."""
        raise NotImplementedError

    def write(self, name: str, array, number: int):
        """Write tensor ``number`` into the slot, then the signal."""
        self.space(name)[...] = array
        self.tell(name, self.space(name), number)

    def tell(self, name: str, tensor, number: int):
        """Raise the signal of tensor ``number``. tensor: the first rows of ``space``; with rma, any array."""
        raise NotImplementedError

    def space(self, name: str) -> np.ndarray:
        """Return the memory of a slot at its writer."""
        raise NotImplementedError

    def has_come(self, name: str, number: int) -> bool:
        """Return whether tensor ``number`` has arrived."""
        raise NotImplementedError

    def tensor(self, name: str) -> np.ndarray:
        """Return a view of the tensor that has arrived."""
        raise NotImplementedError

    def give_back(self, name: str, number: int):
        """Tell the writer that tensor ``number`` has been read."""
        raise NotImplementedError

    def close(self):
        """Free the slots. No tensor may be under way. Collective."""
        self.comm.meet("the end of a channel")
