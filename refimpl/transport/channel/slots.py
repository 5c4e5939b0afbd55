"""Slots, and what every way of the tensor channel does alike: credits, sequence numbers, bytes, waits that end."""

import zlib
from typing import NamedTuple

import numpy as np

from refimpl.transport.communicator import Communicator
from refimpl.transport.waiting import Wait

WORD = 8  # bytes of a signal, of a credit, of a length
LAST = (1 << 63) - 1


class TensorSlot(NamedTuple):
    """Where a tensor goes: from rank ``writer`` to rank ``reader``.

    dtype, shape: of the tensor.  bounded: a tensor may have fewer rows than ``shape`` says; how many travels with it.
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
    """The slots of a plan, over one of the ways. Collective to ``open`` and to ``close``; all else is Local.

    A slot holds one tensor: its writer waits for the reader's credit before it writes the next. A wait raises
    SilentPeer, with the rank that is missing, after the communicator's time-out, and Aborted after an abort message.
    slots: name -> TensorSlot, of all ranks.  first: the sequence number before the first tensor.
    sent: name -> bytes that this rank has sent: of n bytes of a tensor
        shared, rma    n + 8 by the writer (16 if bounded: the length), 8 by the reader
        landing        n + 8 by the writer
    """

    way: str
    overhead = WORD, WORD
    """Bytes beside the tensor: of its writer, of its reader."""
    length = WORD
    """Bytes that say how many rows a bounded tensor has."""

    def __init__(self, comm: Communicator, slots: list[TensorSlot], first: int = 0):
        self.comm, self.slots, self.first = comm, {slot.name: slot for slot in slots}, first
        self.counts = dict.fromkeys(self.slots, first)
        self.sent = dict.fromkeys(self.slots, 0)

    @classmethod
    def open(cls, comm: Communicator, slots: list[TensorSlot], first: int = 0) -> "Channel":
        """Return a channel with these slots. Collective; the same on all ranks.

        Raises CollectiveError on all ranks where they disagree, or where this way cannot serve the slots.
        """
        same = comm.gather_numbers([zlib.crc32(repr(slots).encode())], "the slots of a channel")[:, 0]
        channel = cls(comm, slots, first)
        comm.together(lambda: channel.check(same), (ValueError,))
        channel.make()
        comm.meet("the slots of a channel")
        return channel

    def check(self, same):
        """Raise ValueError for slots that no channel can have. same: every rank's checksum of its slots."""
        if others := np.flatnonzero(same != same[0]).tolist():
            raise ValueError(f"the slots of the channel are not the same on ranks 0 and {others[0]}: give all ranks "
                             "the same plan")
        for slot in self.slots.values():
            if slot.writer == slot.reader or not {slot.writer, slot.reader} <= set(range(self.comm.size)):
                raise ValueError(f"slot {slot.name} goes from rank {slot.writer} to rank {slot.reader}: it needs two "
                                 f"of the ranks 0 to {self.comm.size - 1}")

    def put_signal(self, name: str, array):
        """Write a tensor into a slot of which this rank is the writer, one that is not bounded, and tell the reader.

        Returns when ``array`` may be written again. A tensor that does not fit stops all ranks that wait (Aborted).
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
        """Wait for the next tensor in a slot of which this rank is the reader; return a view of the slot.

        The view is good until ``release``.
        """
        self.counts[name] = number = following(self.counts[name])
        if not self.sleep(name, number, True):
            self._wait(self.has_come, name, number, self.slots[name].writer, "to be written")
        return self.tensor(name)

    def release(self, name: str):
        """Give the slot back to its writer: the credit."""
        self.give_back(name, self.counts[name])
        self.sent[name] += self.overhead[1]

    def _wait(self, is_done, name, number, other, what):
        wait = Wait(self.comm.waiter, lambda: None if is_done(name, number) else [other], f"slot {name} ({what})", self)
        while not self.sleep(name, number, is_done == self.has_come):
            wait.pause()

    def sleep(self, name: str, number: int, reads: bool) -> bool:
        """Wait a while where that is better than to poll; return ``has_come`` or, if not reads, ``is_free``."""
        return (self.has_come if reads else self.is_free)(name, number)

    def make(self):
        """Allocate what this way needs. Collective."""
        raise NotImplementedError

    def is_free(self, name: str, number: int) -> bool:
        """Return whether tensor ``number``, the last that was written, has been read."""
        raise NotImplementedError

    def write(self, name: str, array, number: int):
        """Write tensor ``number`` into the slot, then the signal."""
        self.space(name)[...] = array
        self.tell(name, self.space(name), number)

    def tell(self, name: str, tensor, number: int):
        """Raise the signal of tensor ``number``, the first rows of ``space``; by rma, of any memory."""
        raise NotImplementedError

    def space(self, name: str) -> np.ndarray:
        """Return the memory of a slot at its writer."""
        raise NotImplementedError

    def has_come(self, name: str, number: int) -> bool:
        """Return whether tensor ``number`` is there."""
        raise NotImplementedError

    def tensor(self, name: str) -> np.ndarray:
        """Return a view of the tensor that has come."""
        raise NotImplementedError

    def give_back(self, name: str, number: int):
        """Tell the writer that tensor ``number`` has been read."""
        raise NotImplementedError

    def close(self):
        """Let go of the slots. Collective; no tensor is under way."""
        self.comm.meet("the end of a channel")
