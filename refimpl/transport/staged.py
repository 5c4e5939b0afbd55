"""Device arrays between ranks by way of the host: copied to pinned memory, sent by MPI, copied to the device.

    device -> pinned memory -> MPI -> pinned memory -> device      the way that is always open

A rank's copies to the host are all begun, then waited for once; copies to the device are left to the stream.
"""

from collections import deque

import cupy
import numpy as np

TAG = 16  # no other message between two ranks bears it: what lies on the host is matched by itself


class Staged:
    """The transport of a communicator by way of the host. Local to make.

    comm: whose messages these are.  device: number of the GPU that this rank's arrays lie on.
    """

    name = "staged"

    def __init__(self, comm, device: int, reason: str = ""):
        self.comm, self.device, self.reason = comm, cupy.cuda.Device(device), reason
        self.kept: deque = deque()  # (event, pinned arrays that are copied from until it is done)

    def start(self, sends, receives, what: str) -> "StagedPending":
        """Begin to move contiguous, non-empty device arrays. sends, receives: lists of (peer, array).

        Collective over the ranks concerned, as is the ``wait`` of what is returned. ``what`` names it in errors.
        """
        self.device.use()  # each thread has a device of its own
        comm, arriving = self.comm.mpi, [(array, _pinned(array)) for _, array in receives]
        requests = [comm.Irecv(host, peer, TAG) for (peer, _), (_, host) in zip(receives, arriving)]
        leaving = [_pinned(array) for _, array in sends]
        for (_, array), host in zip(sends, leaving):
            array.get(out=host, blocking=False)
        if sends:
            cupy.cuda.get_current_stream().synchronize()
        requests += [comm.Isend(host, peer, TAG) for (peer, _), host in zip(sends, leaving)]
        return StagedPending(self, requests, [peer for peer, _ in receives + sends], arriving, what)

    def settle(self, unless=lambda: False):
        """Return when no peer is waited for any more: at once, as waits are the host's. Local."""

    def close(self):
        """Let go of what is held. Local."""
        self.kept.clear()

    def keep(self, hosts):
        """Keep pinned arrays until the current stream has copied from them. Local."""
        while self.kept and self.kept[0][0].done:
            self.kept.popleft()
        self.kept.append((cupy.cuda.get_current_stream().record(), hosts))


class StagedPending:
    """Messages under way, begun by ``Staged.start``."""

    def __init__(self, transport: Staged, requests, peers, arriving, what: str):
        self.transport, self.requests, self.peers, self.arriving, self.what = transport, requests, peers, arriving, what

    def wait(self):
        """Return when all has come and gone; what came is there for the current stream. Raises SilentPeer."""
        self.transport.comm.wait_for(self.requests, self.peers, self.what)
        stream = cupy.cuda.get_current_stream()
        for array, host in self.arriving:
            array.set(host, stream)
        if self.arriving:
            self.transport.keep([host for _, host in self.arriving])


def _pinned(array):
    """Return a pinned host array of an array's shape and dtype. Its memory comes from CuPy's pool."""
    return np.frombuffer(cupy.cuda.alloc_pinned_memory(array.nbytes), array.dtype, array.size).reshape(array.shape)
