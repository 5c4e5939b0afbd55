"""What moves bytes between ranks: MPI messages, shared memory, NCCL. The one room that knows mpi4py.

Public names are handed on when they are first asked for: who only launches ranks must not load MPI.
"""

from refimpl.handed_on import handed_on

_HOME = {
    "CollectiveError": "refimpl.transport.waiting",
    "Communicator": "refimpl.transport.communicator",
    "Ledger": "refimpl.transport.ledger",
}

__all__ = sorted(_HOME)
__getattr__, __dir__ = handed_on(__name__, _HOME)
