"""What moves bytes between ranks, and how ranks wait for each other and stop together. The one room that knows MPI.

    abort          abort messages and the roll call, for when ranks cannot agree any more
    agreement      Agreement: ranks go on together or stop together; numbers and words for all
    channel/       tensors written into slots that a plan reserved at their readers
    communicator   Communicator: what everyone uses; opens ranks, machines, devices; shares and adds numbers
    device/        device arrays on their way: NCCL, or staged through the host, and which of them
    errors         CollectiveError, SilentPeer, Aborted
    exchange       ArrayExchange: picks each array's transport, counts its bytes
    job/           the job that a process is a rank of: its hosts, its end, a rank's supervisor, what killed jobs left
    launch         starts a command on N ranks, with the mpirun of the MPI that mpi4py loads
    ledger         Ledger: bytes by phase, variable and kind
    letters        messages that come when they come, for owners without barriers
    machines       which ranks share a machine, as data
    memory/        memory that a machine's ranks share; long arrays summed where they lie, in other ranks' memory
    messages       NumPy arrays as MPI messages: the host's transport
    packed         small arrays put together into one message
    protocol       Transport: what everything that moves arrays fulfils
    some_ranks     some ranks of a communicator, numbered from 0 on
    survival       ranks that go on when others die
    waiting        polling, sleeping, time-outs

Public names are handed on when they are first asked for: who only launches ranks must not load MPI.
"""

from refimpl.handed_on import handed_on

_HOME = {
    "Aborted": "refimpl.transport.errors",
    "CollectiveError": "refimpl.transport.errors",
    "Communicator": "refimpl.transport.communicator",
    "Ledger": "refimpl.transport.ledger",
    "SilentPeer": "refimpl.transport.errors",
    "Transport": "refimpl.transport.protocol",
}

__all__ = sorted(_HOME)
__getattr__, __dir__ = handed_on(__name__, _HOME)
