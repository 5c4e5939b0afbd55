"""Move bytes between ranks; let ranks wait for each other and stop together. The only room that knows MPI.

    abort          abort messages and the roll call, for ranks that cannot agree any more
    agreement      Agreement: ranks continue together or stop together, and share numbers and texts
    channel/       tensors written into slots that a plan reserved at their readers
    communicator   Communicator, which all rooms use: knows ranks, machines, devices; shares and adds numbers
    device/        device arrays travel by NCCL or through the host; the choice between the two
    errors         CollectiveError, SilentPeer, Aborted
    exchange       ArrayExchange: picks each array's transport, counts its bytes
    job/           the job of a rank: its hosts, its end, a rank's supervisor, files that killed jobs left
    launch         starts a command on N ranks, with the mpirun of the MPI that mpi4py loads
    ledger         Ledger: bytes by phase, variable and kind
    letters        messages that may come at any time, for training without barriers
    machines       which ranks share a machine, as data
    memory/        memory that a machine's ranks share; sums of long arrays that stay in each rank's own memory
    messages       NumPy arrays as MPI messages: the host's transport
    packed         small arrays put together into one message
    protocol       Transport: the interface of everything that moves arrays
    rounds         rounds of short messages and their sums, in one call of compiled code
    some_ranks     some ranks of a communicator, numbered from 0 on
    survival       ranks that continue when others die
    waiting        polling, sleeping, time-outs

Public names are imported when they are first used, because a process that only launches ranks must not load MPI.
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
