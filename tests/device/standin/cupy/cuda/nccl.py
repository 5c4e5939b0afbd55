"""The stand-in's NCCL: cupy.cuda.nccl's names, over MPI. It truly moves data, and remembers every call.

What it is strict about, as NCCL is:

- Nothing has moved before somebody waits: memory that shall be received into holds rubbish until then, and memory that
  is sent must not be written (both are checked; on a GPU they would be races).
- Sends and receives of two ranks meet in their order; a message's length must be the one expected.
- A sum has an order of its own, which is not the microbatch tree's.
- A rank that is gone is an error of ``check_async_error``, if somebody says so: ``fail(status)``. What is aborted no
  longer moves. ``give_up`` ends what waits for ranks that do not come: a test's last word.

The calls are in ``cupy.standin.calls``: ("nccl.send", bytes, peer, stream) ...  REFIMPL_STANDIN_NCCL says which version
it is (default 23203; 0: there is none).
"""

import ctypes
import os
import threading
import zlib

import numpy as np

from cupy import _races, standin
from cupy.cuda import queues

NCCL_INT8 = NCCL_CHAR = 0
NCCL_UINT8 = 1
NCCL_INT32 = NCCL_INT = 2
NCCL_UINT32 = 3
NCCL_INT64 = 4
NCCL_UINT64 = 5
NCCL_FLOAT16 = NCCL_HALF = 6
NCCL_FLOAT32 = NCCL_FLOAT = 7
NCCL_FLOAT64 = NCCL_DOUBLE = 8
NCCL_SUM, NCCL_PROD, NCCL_MAX, NCCL_MIN, NCCL_AVG = range(5)
_DTYPES = {NCCL_INT8: "i1", NCCL_UINT8: "u1", NCCL_INT32: "i4", NCCL_UINT32: "u4", NCCL_INT64: "i8", NCCL_UINT64: "u8",
           NCCL_FLOAT16: "f2", NCCL_FLOAT32: "f4", NCCL_FLOAT64: "f8"}
_RUBBISH = 0xAB
_version = int(os.environ.get("REFIMPL_STANDIN_NCCL", "23203"))
available = _version > 0
_thread = threading.local()
_failure, _given_up, _testing = [0], threading.Event(), threading.RLock()


_ERRORS = dict(enumerate("NCCL_ERROR_SUCCESS NCCL_ERROR_UNHANDLED_CUDA_ERROR NCCL_ERROR_SYSTEM_ERROR "
                         "NCCL_ERROR_INTERNAL_ERROR NCCL_ERROR_INVALID_ARGUMENT NCCL_ERROR_INVALID_USAGE "
                         "NCCL_ERROR_REMOTE_ERROR".split()))  # CuPy 14 has no words for those since: KeyError


class NcclError(RuntimeError):
    def __init__(self, status):
        self.status = status
        super().__init__(f"{_ERRORS[status]}: {'remote process exited or there was a network error' * (status == 6)}")


def fail(status: int):
    """Let every communicator of this process have met an error from now on; 0: none. Not a part of CuPy."""
    _failure[0] = status
    _given_up.clear()


def give_up():
    """End all waiting in this process until ``fail(0)``. Not a part of CuPy."""
    _given_up.set()


def get_version():
    return _version


def get_unique_id():
    return os.urandom(128)


def groupStart():
    if getattr(_thread, "group", None) is not None:
        raise NotImplementedError("the stand-in nests no groups")
    standin.called("nccl.groupStart")
    _thread.group = []


def groupEnd():
    standin.called("nccl.groupEnd")
    group, _thread.group = _thread.group, None
    for post in group:
        post()


def _grouped(post):
    if getattr(_thread, "group", None) is None:
        raise AssertionError("send and receive outside a group: two ranks that both send would wait for ever")
    _thread.group.append(post)


class NcclCommunicator:
    def __init__(self, ndev, commId, rank, config=None):
        from mpi4py import MPI

        if not isinstance(commId, bytes) or len(commId) != 128:
            raise TypeError("commId must be the bytes of get_unique_id")
        self.mpi, self.ranks, self.rank = MPI.COMM_WORLD, ndev, rank
        if ndev > self.mpi.size or rank != self.mpi.rank:
            raise NotImplementedError("the stand-in connects the first ranks of the job, in their order")
        self.tag = 1000 + int.from_bytes(commId[:4], "little") % 30000
        self.works, self.streams = [], set()
        standin.called("nccl.init", ndev, rank)
        word = np.zeros(1, np.uint8)
        for peer in range(ndev):
            if peer != rank:
                self.mpi.Isend(word, peer, self.tag)
                _until(self.mpi.Irecv(word.copy(), peer, self.tag).Test)

    def send(self, sendbuf, count, datatype, peer, stream):
        self._checked(peer)
        nbytes = count * np.dtype(_DTYPES[datatype]).itemsize
        standin.called("nccl.send", nbytes, peer, stream)
        _grouped(lambda: self._add(stream, _Send(self, _memory(sendbuf, nbytes, stream, False), peer)))

    def recv(self, recvbuf, count, datatype, peer, stream):
        self._checked(peer)
        nbytes = count * np.dtype(_DTYPES[datatype]).itemsize
        standin.called("nccl.recv", nbytes, peer, stream)
        _grouped(lambda: self._add(stream, _Receive(self, _memory(recvbuf, nbytes, stream, True), peer)))

    def allReduce(self, sendbuf, recvbuf, count, datatype, op, stream):
        self._checked(None)
        dtype = np.dtype(_DTYPES[datatype])
        if op != NCCL_SUM:
            raise NotImplementedError("the stand-in knows sums only")
        standin.called("nccl.allReduce", count, dtype.name, stream)
        nbytes = count * dtype.itemsize
        given, result = _memory(sendbuf, nbytes, stream, False), _memory(recvbuf, nbytes, stream, True)
        self._add(stream, _AllReduce(self, given, result, dtype))

    def _add(self, stream, work):
        self.streams.add(stream)
        self.works = [one for one in self.works if not one.over] + [work]
        queues.add(stream, work)

    def check_async_error(self):
        if _failure[0]:
            raise NcclError(_failure[0])

    def abort(self):
        standin.called("nccl.abort")
        self.ranks = 0
        for work in self.works:
            work.over = True
        queues.finish(self.works)
        for stream in self.streams:
            _races.ended(stream)

    def destroy(self):
        standin.called("nccl.destroy")
        self.ranks = 0

    def size(self):
        return self.ranks

    def _checked(self, peer):
        if not self.ranks:
            raise NcclError(4)
        if peer is not None and (not 0 <= peer < self.ranks or peer == self.rank):
            raise AssertionError(f"rank {self.rank} exchanges a message with rank {peer} of {self.ranks}")


class _Work:
    """What a stream still has to do. Several threads may ask whether it is done."""

    def finish(self):
        _until(self.test)


class _Send(_Work):
    def __init__(self, comm, memory, peer):
        self.memory, self.before = memory, zlib.crc32(memory)
        self.request = comm.mpi.Isend(memory.copy(), peer, comm.tag)
        self.over = False

    def test(self):
        with _testing:
            if not self.over and self.request.Test():
                self._check()
            return self.over

    def _check(self):
        self.over = True
        if zlib.crc32(self.memory) != self.before and not queues.runs_ahead:
            raise AssertionError("memory was written while it was sent")


class _Receive(_Work):
    def __init__(self, comm, memory, peer):
        self.memory, self.came = memory, np.empty(memory.size + 1, np.uint8)
        memory[:] = _RUBBISH
        self.request, self.over = comm.mpi.Irecv(self.came, peer, comm.tag), False

    def test(self):
        from mpi4py import MPI

        status = MPI.Status()
        with _testing:
            if not self.over and self.request.Test(status):
                self._arrive(status)
            return self.over

    def _arrive(self, status):
        self.over = True
        if status.count != self.memory.size:
            raise AssertionError(f"a message of {status.count} bytes came where {self.memory.size} were expected")
        if not (self.memory == _RUBBISH).all() and not queues.runs_ahead:
            raise AssertionError("memory was written while something was received into it")
        self.memory[:] = self.came[:-1]


class _AllReduce(_Work):
    """Everyone's array to everyone, added up from the rank after this job's middle on."""

    def __init__(self, comm, memory, result, dtype):
        self.result, self.dtype, self.first = result, dtype, (comm.ranks + 1) // 2
        self.parts = [memory.copy() if r == comm.rank else np.empty(memory.size, np.uint8) for r in range(comm.ranks)]
        others = [r for r in range(comm.ranks) if r != comm.rank]
        self.requests = [comm.mpi.Irecv(self.parts[r], r, comm.tag) for r in others]
        self.requests += [comm.mpi.Isend(self.parts[comm.rank], r, comm.tag) for r in others]
        result[:] = _RUBBISH
        self.over = False

    def test(self):
        with _testing:
            if not self.over and all([request.Test() for request in self.requests]):
                self._add()
            return self.over

    def _add(self):
        self.over = True
        parts = [part.view(self.dtype) for part in self.parts]
        total = np.zeros_like(parts[0])
        for part in parts[self.first:] + parts[:self.first]:
            total = total + part
        self.result[:] = total.view(np.uint8)


def _memory(address, nbytes, stream, is_written):
    """Return the bytes at an address, as a stream touches them."""
    _races.touch(address, address + nbytes, is_written, stream)
    return np.frombuffer((ctypes.c_char * nbytes).from_address(address), np.uint8)


def _until(test):
    """Wait, and leave the core to others."""
    import time

    while not test():
        if _given_up.is_set():
            raise NcclError(2)
        time.sleep(20e-6)
