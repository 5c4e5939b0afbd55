"""The channel between ranks of one machine: slots in shared memory. Neither writer nor reader calls MPI.

    |signal, sleepers, length|credit, sleepers|tensor ...|       each part begins a cache line

A reader that sees the signal also sees what the writer wrote before: the signal is stored with release semantics and
loaded with acquire semantics (``kernels.atomics``).
"""

from typing import NamedTuple

import numpy as np

from kernels.atomics import LINE, raise_flag, wait_for_number
from refimpl.transport.channel.slots import LAST, WORD, Channel, following
from refimpl.transport.machines import machine_of
from refimpl.transport.memory.shared_memory import LOOK_AFTER, SharedWindow, aligned

AWAKE = 20
"""A wait here looks so many times as often as other waits before it sleeps. The other side works in Python, which takes
microseconds; waking up takes longer."""
_CREDIT = LINE // 8
_LENGTH = 2  # the word of a slot that holds the tensor's number of rows


class _Place(NamedTuple):
    """The addresses of signal and credit, the words of both, and the memory of the tensor."""

    signal: int
    credit: int
    words: memoryview
    array: np.ndarray


class SharedChannel(Channel):
    """See ``Channel``. Its slots stay within a machine."""

    way = "shared"

    def check(self, same):
        super().check(same)
        for slot in self.slots.values():
            if machine_of(self.comm.machines, slot.writer) != machine_of(self.comm.machines, slot.reader):
                raise ValueError(f"slot {slot.name} goes from rank {slot.writer} to rank {slot.reader}, which is on "
                                 "another machine: shared serves ranks of one machine; take landing or rma")

    def make(self):
        here = [slot for slot in self.slots.values() if slot.writer in self.comm.machine]
        nbytes = sum(2 * LINE + aligned(slot.nbytes) for slot in here)
        self.window, self.places, offset = SharedWindow.open(self.comm, nbytes, "the slots of a channel"), {}, 0
        self.looks = AWAKE * self.window.spins
        for slot in here:
            words = memoryview(self.window.array(offset, 2 * LINE // 8, np.int64))
            words[0] = words[_CREDIT] = self.first
            elements = self.window.array(offset + 2 * LINE, int(np.prod(slot.shape)), slot.dtype)
            place = self.window.address + offset
            self.places[slot.name] = _Place(place, place + LINE, words, elements.reshape(slot.shape))
            offset += 2 * LINE + aligned(slot.nbytes)

    def put_signal(self, name, array):
        """See ``Channel``. It repeats the base class's code, because a call in Python costs more than 8 bytes do."""
        place, number = self.places[name], self.counts[name]
        if (place.words[_CREDIT] != number or number == LAST or array.shape != place.array.shape
                or array.dtype is not place.array.dtype):
            return super().put_signal(name, array)
        place.array[...] = array
        self.counts[name] = number = number + 1
        raise_flag(place.signal, number)
        self.sent[name] += array.nbytes + WORD

    def wait_signal(self, name):
        """See ``Channel``. It repeats the base class's code, like ``put_signal``."""
        place = self.places[name]
        self.counts[name] = number = following(self.counts[name])
        if not wait_for_number(place.signal, number, self.looks, LOOK_AFTER):
            self._wait(self.has_come, name, number, self.slots[name].writer, "to be written")
        return place.array

    def space(self, name):
        return self.places[name].array

    def tensor(self, name):
        return self.places[name].array[:self.places[name].words[_LENGTH]]

    def is_free(self, name, number):
        return self.places[name].words[_CREDIT] == number  # only writes follow, which stay after this read

    def has_come(self, name, number):
        place = self.places[name]
        return place.words[0] == number and wait_for_number(place.signal, number, 0, 0)

    def sleep(self, name, number, reads):
        """Look at a flag for a while, then sleep; return whether it is ``number``.

        A larger number does not count: numbers wrap, and a writer that runs ahead makes a mistake.
        """
        place = self.places[name]
        if wait_for_number(place.signal if reads else place.credit, number, self.looks, LOOK_AFTER):
            return True
        self.window.check_alive()
        return False

    def tell(self, name, tensor, number):
        place = self.places[name]
        place.words[_LENGTH] = len(tensor)
        raise_flag(place.signal, number)

    def give_back(self, name, number):
        raise_flag(self.places[name].credit, number)
