"""Device arrays between ranks by way of the host: copied to pinned memory, sent by MPI, copied to the device.

    device -> pinned memory -> MPI -> pinned memory -> device      the way that is always open

A rank's copies to the host are all begun, then waited for once; copies to the device are left to the stream.
"""

from collections import deque

import cupy
import numpy as np

from refimpl.transport.device.repeated import Repeating
from refimpl.transport.messages import MpiMessages

TAG = 16  # no other message between two ranks bears it: what lies on the host is matched by itself


class Staged(Repeating):
    """Device arrays by way of the host; see ``protocol.Transport``. Local to make.

    host: moves what is copied.  device: number of the GPU that this rank's arrays lie on.
    """

    name = "staged"

    def __init__(self, host: MpiMessages, device: int, reason: str = ""):
        self.host, self.device, self.reason = host, cupy.cuda.Device(device), reason
        self._kept: deque = deque()  # (event, pinned arrays that are copied from until it is done)

    def start(self, sends, receives, what: str) -> "StagedPending":
        self.device.use()  # each thread has a device of its own
        arriving = [(array, _pinned(array)) for _, array in receives]
        coming = self.host.start([], [(peer, to) for (peer, _), (_, to) in zip(receives, arriving)], what, tag=TAG)
        leaving = [(peer, _pinned(array)) for peer, array in sends]
        for (_, array), (_, to) in zip(sends, leaving):
            array.get(out=to, blocking=False)
        if sends:
            cupy.cuda.get_current_stream().synchronize()
        return StagedPending(self, [coming, self.host.start(leaving, [], what, tag=TAG)], arriving)

    def settle(self, unless=lambda: False):
        """Return at once: waits for peers are the host's. Local."""

    def close(self):
        self._kept.clear()

    def keep(self, arrays):
        """Keep pinned arrays until the current stream has copied from them. Local."""
        while self._kept and self._kept[0][0].done:
            self._kept.popleft()
        self._kept.append((cupy.cuda.get_current_stream().record(), arrays))


class StagedPending:
    """Messages under way, begun by ``Staged.start``. arriving: (device array, pinned array that fills it)."""

    def __init__(self, transport: Staged, messages, arriving):
        self.transport, self.messages, self.arriving = transport, messages, arriving

    def advance(self):
        for pending in self.messages:
            pending.advance()

    def wait(self):
        """Return when all has come and gone; what came is there for the current stream. Raises SilentPeer, Aborted."""
        for pending in self.messages:
            pending.wait()
        stream = cupy.cuda.get_current_stream()
        for array, came in self.arriving:
            array.set(came, stream)
        if self.arriving:
            self.transport.keep([came for _, came in self.arriving])


def _pinned(array):
    """Return a pinned host array of an array's shape and dtype. Its memory comes from CuPy's pool."""
    return np.frombuffer(cupy.cuda.alloc_pinned_memory(array.nbytes), array.dtype, array.size).reshape(array.shape)
