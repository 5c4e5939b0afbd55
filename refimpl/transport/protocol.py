"""The interface of transports, which move arrays between ranks.

    MpiMessages            NumPy arrays, as MPI messages
    device.staged.Staged   device arrays, through host memory and MPI
    device.nccl.Nccl       device arrays, from GPU to GPU by NCCL

A ``Communicator`` has one transport for host arrays, and may have one for device arrays. It counts bytes, has the
time-out and the abort messages, and picks the transport by the kind of array. A new transport (one-sided access,
another network) is a class with these members; ``tests/transport/test_protocol*.py`` test it.

In all methods ``sends`` and ``receives`` are lists of (peer, contiguous array that is not empty). From the host, rows
of a table may be sent, too, as ``packed.Taken``. Messages of one pair of ranks keep their order; ``what`` names them in
errors. A waiting rank raises SilentPeer, with the ranks for which it waits, after the communicator's time-out without
progress. It raises Aborted after another rank's abort message.
"""

from typing import Callable, Protocol, runtime_checkable


@runtime_checkable
class Pending(Protocol):
    """Messages under way. What is sent must not be written, and what is received not read, until ``wait`` returns."""

    def advance(self) -> None:
        """Let the messages make progress while this rank computes: MPI moves them only when it is called. Local."""

    def wait(self) -> None:
        """Return when all is sent and received. Collective over senders and receivers.

        With device arrays only the current stream waits. The host may return earlier; see ``Transport.settle``.
        """


@runtime_checkable
class Prepared(Protocol):
    """Messages that are sent again and again, from and to the same memory: MPI's persistent requests."""

    def start(self) -> None:
        """Begin to move them once more; ``Transport.wait_some`` tells when they are complete. Local."""

    def free(self) -> None:
        """Free memory and requests. No message may be under way. Local."""


@runtime_checkable
class Transport(Protocol):
    """A transport of one kind of arrays. name: for options and reports.  reason: a sentence why it was chosen."""

    name: str
    reason: str

    def start(self, sends: list, receives: list, what: str) -> Pending:
        """Begin to send and to receive. Collective over senders and receivers."""

    def prepare(self, sends: list, receives: list, what: str, lane: int = 0) -> Prepared:
        """Return messages for ``Prepared.start``. Local.

        lane: messages are matched with those of the same lane, so messages of several lanes may be under way in any
        order. A transport that matches messages only by their order has only lane 0.
        """

    def wait_some(self, started: list) -> list:
        """Wait until any ``started`` Prepared is complete; return those that are. Collective over their ranks."""

    def test_some(self, started: list) -> list:
        """Return those of the ``started`` Prepared that are complete, perhaps none; advance the others. Local."""

    def settle(self, unless: Callable[[], bool] = lambda: False) -> None:
        """Return when no message is under way, or unless() is true. Local.

        The host calls it before it reads device memory. Otherwise the read would wait for peers without a time-out.
        """

    def close(self) -> None:
        """Abort messages under way, and disconnect from the other ranks. No array can be moved afterwards. Local."""
