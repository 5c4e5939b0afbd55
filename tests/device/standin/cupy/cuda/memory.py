"""Memory of the stand-in's device: counted, and limited where a test says so."""

import threading

import numpy as np
from numpy.lib.array_utils import byte_bounds

from cupy import _races


class OutOfMemoryError(MemoryError):
    """Out of memory on the device."""

    def __init__(self, size, total, limit=0):
        told = f" (limit set to: {limit:,} bytes)" if limit else ""
        super().__init__(f"Out of memory allocating {size:,} bytes (allocated so far: {total:,} bytes){told}.")


class MemoryPool:
    """What is used of the device, and how much may be."""

    def __init__(self):
        self.used, self.limit, self.lock = 0, 0, threading.RLock()

    def used_bytes(self):
        return self.used

    def set_limit(self, size=None, fraction=None):
        self.limit = int(size if fraction is None else fraction * 80 * 2**30)

    def take(self, nbytes):
        with self.lock:
            if self.limit and self.used + nbytes > self.limit:
                raise OutOfMemoryError(nbytes, self.used, self.limit)
            self.used += nbytes

    def give(self, nbytes):
        with self.lock:
            self.used -= nbytes


_pool = MemoryPool()


def get_default_memory_pool():
    return _pool


class Block:
    """Memory that one or more arrays lie in; given back when the last is gone. ``owner``: the NumPy array behind."""

    def __init__(self, size, owner=None):
        self.size = 0
        _races.raise_found()
        _pool.take(size)
        self.size = size
        self.owner = np.empty(size, np.uint8) if owner is None else owner
        what = "" if owner is None else f"an array {self.owner.dtype} {self.owner.shape}"
        self.memory = _races.Memory(byte_bounds(self.owner)[0] if size else 0, size, what)

    @property
    def buffer(self):
        flat = self.owner if self.owner.flags.c_contiguous else self.owner.T
        return memoryview(flat.reshape(-1).view(np.uint8))

    ptr = property(lambda self: self.owner.ctypes.data)

    def __del__(self):
        if self.size and _pool is not None:  # as it is when Python ends
            _pool.give(self.size)
            if hasattr(self, "memory"):
                self.memory.give_back()


class MemoryPointer:
    """An address on the device: ptr, and the memory it lies in."""

    def __init__(self, mem, offset):
        self.mem, self.offset = mem, offset
        self.ptr = mem.ptr + offset

    @classmethod
    def of(cls, array):
        pointer = cls.__new__(cls)
        pointer.mem, pointer.ptr = array._block, array._host.ctypes.data
        pointer.offset = pointer.ptr - array._block.ptr
        return pointer

    def __int__(self):
        return self.ptr

    def __add__(self, offset):
        return MemoryPointer(self.mem, self.offset + offset)


def alloc(size):
    """Return a MemoryPointer to ``size`` new bytes."""
    return MemoryPointer(Block(size), 0)


def alloc_pinned_memory(size):
    """Return pinned host memory of at least ``size`` bytes: NumPy reads it through the buffer protocol."""
    return np.empty(max(1, size), np.uint8)
