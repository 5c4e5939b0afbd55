"""Move arrays between ranks, each kind by its transport, and count every byte."""

import numpy as np

from kernels import is_numpy
from refimpl.transport.agreement import Agreement
from refimpl.transport.errors import Aborted, SilentPeer
from refimpl.transport.job.supervisor import TIMEOUT_SECONDS
from refimpl.transport.ledger import Ledger
from refimpl.transport.machines import Machines, machine_of
from refimpl.transport.messages import MpiMessages
from refimpl.transport.packed import Taken
from refimpl.transport.protocol import Pending, Transport


class ArrayExchange(Agreement):
    """Ranks that agree, and send arrays to each other.

    machines: the ranks that share memory.  machine: those of this rank's machine.  ledger: the bytes of every message
    that this rank sends or receives.  host_transport: moves NumPy arrays.  device_transport: moves device arrays; None
    if there are none.
    """

    def __init__(self, mpi, machines: Machines, timeout: float = TIMEOUT_SECONDS):
        super().__init__(mpi, timeout)
        self.machines, self.machine = machines, machines[machine_of(machines, self.rank)]
        self.ledger = Ledger()
        self.host_transport = MpiMessages(mpi, self.waiter)
        self.device_transport: Transport | None = None

    def transport_of(self, array) -> Transport:
        """Return the transport for arrays like this one. Local. Raises ValueError if there is none."""
        if is_numpy(array):
            return self.host_transport
        if self.device_transport is None:
            raise ValueError(f"this communicator moves NumPy arrays, not those of {type(array).__module__}: call its "
                             "add_device(number) first, on all ranks")
        return self.device_transport

    def exchange(self, sends, receives, phase: str, kind: str, packed: bool = True):
        """Send and receive arrays, all at the same time. Collective over senders and receivers.

        sends, receives: lists of (peer, contiguous array, {variable: elements}); messages of one pair keep their order.
        Empty arrays are not sent. When the call returns, all NumPy arrays have moved. Device arrays have then moved for
        later work on the current stream, but not for the host (see ``settle``).
        Rows of a table on the host may be sent without a copy, as ``packed.Taken``.
        phase, kind: for the ledger and for errors.  packed: whether small NumPy arrays of a pair travel in one message
        (see ``packed``), the same on all ranks.  Raises SilentPeer if a peer does not come within the time-out.
        """
        self.start(sends, receives, phase, kind, packed).wait()

    def start(self, sends, receives, phase: str, kind: str, packed: bool = True, tag: int = 0) -> Pending:
        """Begin an ``exchange`` and return it. Collective over senders and receivers, as is ``Pending.wait``.

        Before ``wait`` has returned, arrays to send must not be written, and arrays to receive not read.  tag: arrays
        on the host are matched with those of the same tag.
        """
        what = f"{phase} ({kind})"
        receives, to_device = self._counted("received", receives, phase, kind)
        sends, from_device = self._counted("sent", sends, phase, kind)
        if not (from_device or to_device):
            return self.host_transport.start(sends, receives, what, packed, tag)
        device = self.transport_of((from_device or to_device)[0][1])
        return _Both(self.host_transport.start(sends, receives, what, packed),
                     device.start(from_device, to_device, what))

    def post(self, sends, receives, what: str, tag: int = 0) -> Pending:
        """Begin to move NumPy arrays, lists of (peer, array). The caller counts them. Collective over their ranks.

        what: named in errors.  A message may be shorter than its receiver's array. A list of arrays is one message.
        tag: see ``start``.
        """
        return self.host_transport.start(sends, receives, what, tag=tag)

    def settle(self, unless=lambda: False):
        """Return when all device arrays have moved, or unless() is true. Local.

        The host calls it before it reads device memory. Raises SilentPeer, and errors of the transport.
        """
        if self.device_transport is not None:
            self.device_transport.settle(unless)

    def stop(self, error: BaseException):
        """Raise ``error`` on all ranks, see ``Agreement.stop``. Local.

        Unless all ranks have agreed to stop, messages on a device are aborted: they might wait for ever.
        """
        try:
            super().stop(error)
        except (SilentPeer, Aborted):
            if self.device_transport is not None:
                self.device_transport.close()
            raise

    def _counted(self, direction, messages, phase, kind):
        """Count messages; return two lists of (peer, array): NumPy arrays, and device arrays."""
        on_host, on_device = [], []
        for peer, array, owners in messages:
            if array.size:
                (on_host if isinstance(array, (np.ndarray, Taken)) else on_device).append((peer, array))
                self.ledger.count(direction, peer not in self.machine, phase, owners, kind, array.itemsize)
        return on_host, on_device


class _Both:
    """Messages under way, of host arrays and of device arrays."""

    def __init__(self, on_host: Pending, on_device: Pending):
        self.on_host, self.on_device = on_host, on_device

    def advance(self):
        self.on_host.advance()
        self.on_device.advance()

    def wait(self):
        self.on_host.wait()
        self.on_device.wait()
