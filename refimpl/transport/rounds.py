"""Rounds of prepared MPI messages and sums, which run in one call of compiled code as long as messages come soon."""

import ctypes
import time
from functools import cache

import numpy as np
from mpi4py import MPI

from kernels.rounds import RESULT, run_rounds, table_of
from kernels.shared_sum.fast import computable


@cache
def addresses() -> list[int]:
    """Return the addresses of MPI_Startall and MPI_Testall; none if this mpi4py does not show them. Local."""
    try:
        library = ctypes.CDLL(MPI.__file__)
        return [ctypes.cast(getattr(library, f"MPI_{name}"), ctypes.c_void_p).value for name in ("Startall", "Testall")]
    except (OSError, AttributeError):
        return []


def can_compile(rounds) -> bool:
    """Return whether ``CompiledRounds`` can run these rounds: their sums are of one dtype that it can add. Local."""
    dtypes = {array.dtype for _, sums in rounds for pair in sums for array in pair}
    return len(dtypes) <= 1 and all(computable(dtype) is not None for dtype in dtypes) and bool(addresses())


class CompiledRounds:
    """Rounds that run in compiled code. A round that does not come soon waits in Python. The constructor is local.

    transport: ``MpiMessages``.  rounds: (its MpiPrepared or None, sums), with sums (into, other) of contiguous arrays.
    """

    def __init__(self, transport, rounds):
        self.transport, self.rounds = transport, rounds
        requests = [messages.requests if messages else [] for messages, _ in rounds]
        self.handles = [np.frombuffer(b"".join(map(handle_of, some)), np.uint8).copy() for some in requests]
        self.statuses = np.empty((max(map(len, requests), default=0), MPI._sizeof(MPI.Status)), np.uint8)
        dtype = next((into.dtype for _, sums in rounds for into, _ in sums), np.dtype(np.float32))
        self.like = np.empty(0, computable(dtype))
        self.table = table_of(*addresses(), self.statuses.ctypes.data, [
            (len(some), handles.ctypes.data, [(into.ctypes.data, other.ctypes.data, into.size) for into, other in sums])
            for some, handles, (_, sums) in zip(requests, self.handles, rounds)])

    def __call__(self):
        """Run all rounds. Collective over senders and receivers. Raises SilentPeer, Aborted."""
        awake = self.transport.waiter.awake_seconds()
        done = self._run(0, False, awake)
        while done < len(self.rounds):
            messages, _ = self.rounds[done]
            messages.left = messages.requests
            self.transport.wait_long([messages], time.monotonic() - awake)
            done = self._run(done, True, awake)

    def _run(self, first, started, awake):
        done = run_rounds(self.table, first, started, int(awake * 1e9), self.like)
        if done < 0:
            for messages, _ in self.rounds:
                if messages:
                    messages.left = messages.requests  # some may be under way, so ``MpiPrepared.free`` must keep them
            raise MPI.Exception(int(self.table[RESULT]))
        return done


def handle_of(request) -> bytes:
    """Return MPI's handle of a persistent request, which never changes: an int in MPICH, a pointer in Open MPI."""
    return ctypes.string_at(MPI._addressof(request), MPI._sizeof(request))
