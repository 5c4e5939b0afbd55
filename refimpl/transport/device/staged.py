"""Device arrays travel between ranks through the host. This way is always possible.

    device -> pinned memory -> MPI -> pinned memory -> device

A rank starts all copies to the host, then waits once. It does not wait for copies to the device.
"""

from collections import deque

import cupy
import numpy as np

from refimpl.transport.device.repeated import Repeating
from refimpl.transport.messages import MpiMessages

TAG = 16  # no other message has this tag, so these are matched apart from those of host arrays


class Staged(Repeating):
    """Device arrays through the host; see ``protocol.Transport``. The constructor is local.

    host: moves the copies.  device: number of the GPU with this rank's arrays.
    """

    name = "staged"

    def __init__(self, host: MpiMessages, device: int, reason: str = ""):
        self.host, self.device, self.reason = host, cupy.cuda.Device(device), reason
        self._kept: deque = deque()  # (event, pinned arrays that are read until it is done)

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
        """Return at once, because this transport waits for peers on the host. Local."""

    def close(self):
        self._kept.clear()

    def keep(self, arrays):
        """Keep pinned arrays until the current stream has copied from them. Local."""
        while self._kept and self._kept[0][0].done:
            self._kept.popleft()
        self._kept.append((cupy.cuda.get_current_stream().record(), arrays))


class StagedPending:
    """Messages under way, started by ``Staged.start``. arriving: (device array, pinned array that fills it)."""

    def __init__(self, transport: Staged, messages, arriving):
        self.transport, self.messages, self.arriving = transport, messages, arriving

    def advance(self):
        for pending in self.messages:
            pending.advance()

    def wait(self):
        """Return when all is sent and received, for the current stream. Raises SilentPeer, Aborted."""
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
