"""The communicator: how it is opened, and how ranks share numbers.

    Agreement        ranks continue together or stop together              agreement.py
    ArrayExchange    moves arrays of host and device, and counts bytes     exchange.py
    Communicator     knows machines; shares and adds numbers               this file
"""

import os

import numpy as np
from mpi4py import MPI

from refimpl.transport.agreement import Agreement
from refimpl.transport.device.choice import open_transport
from refimpl.transport.errors import CollectiveError
from refimpl.transport.exchange import ArrayExchange
from refimpl.transport.job.ending import tell_end
from refimpl.transport.job.leftovers import remove_leftovers
from refimpl.transport.job.supervisor import TIMEOUT_SECONDS
from refimpl.transport.job.uncaught import tell_once
from refimpl.transport.machines import Machines, machines_of
from refimpl.words import counted


class Communicator(ArrayExchange):
    """All communication of ranks. The constructor is local; ``of`` also finds the machines.

    mpi: mpi4py's communicator.
    machines: which ranks share memory, the same on all ranks. Tests split one machine into several.
    timeout: seconds that a rank waits without any progress before it raises SilentPeer.
    """

    @classmethod
    def of(cls, comm=None, timeout: float = TIMEOUT_SECONDS) -> "Communicator":
        """Return ``comm`` if it is a Communicator, or a Communicator over mpi4py's ``comm``. Collective over ``comm``.

        comm: None means all ranks.  MPI knows which of them share a machine.
        Raises CollectiveError in processes that torchrun has started, because MPI does not know the others.
        """
        if isinstance(comm, cls):
            return comm
        mpi = MPI.COMM_WORLD if comm is None else comm
        tell_once()
        if mpi.Get_size() == MPI.COMM_WORLD.Get_size():
            tell_end()
        if comm is None:
            _refuse_torchrun(mpi)
        found = cls(mpi, _find_machines(Agreement(mpi, timeout)), timeout)
        if found.rank == found.machine[0]:
            remove_leftovers()
        return found

    @classmethod
    def alone(cls) -> "Communicator":
        """Return a communicator of this rank alone. Local."""
        return cls(MPI.COMM_SELF, ((0,),))

    def first(self, count: int) -> "Communicator | None":
        """Return a communicator of the ``count`` lowest ranks; None on the others. Collective. End it with ``free``."""
        self.meet(f"a communicator of {counted(count, 'rank')}")  # it names a missing rank; the next call could not
        if self.rank >= count:
            return None
        mpi = self.mpi.Create_group(self.mpi.Get_group().Incl(range(count)))
        kept = (tuple(rank for rank in ranks if rank < count) for ranks in self.machines)
        return Communicator(mpi, tuple(ranks for ranks in kept if ranks), self.timeout)

    def free(self):
        """Free MPI's communicator. No message may be under way, and this object must not be used again. Collective."""
        self.meet("the end of a communicator")
        self.mpi.Free()

    def add_device(self, number: int, transport: str = "auto"):
        """Let arrays travel that lie on this machine's GPU ``number``. Every rank must have a GPU. Collective.

        transport: see ``open_transport``, which sets ``device_transport``; its ``reason`` says why.
        """
        self.device_transport = open_transport(self, number, transport)

    @property
    def threads(self) -> bool:
        """Whether any thread may use the communicator, one at a time. Local."""
        return MPI.Query_thread() == MPI.THREAD_MULTIPLE

    def share(self, array, phase: str) -> np.ndarray:
        """Return (size, *shape): every rank's array of one shape and dtype, by rank. Collective; counted as control."""
        array = np.asarray(array, order="C")  # ascontiguousarray makes a scalar a vector
        result = np.empty((self.size, *array.shape), array.dtype)
        result[self.rank] = array
        others = [r for r in range(self.size) if r != self.rank]
        owners = {"": array.size}
        self.exchange([(r, array, owners) for r in others], [(r, result[r, ...], owners) for r in others], phase,
                      "control")
        return result

    def total(self, numbers, phase: str) -> np.ndarray:
        """Return the sum over all ranks of ``numbers``: (k,) int64, the same on every rank. Collective.

        Each machine's ranks send them to its first rank. The first ranks exchange their sums, one message in each
        direction between two machines, and send the total back. Counted as control.
        """
        first, *others = self.machine
        result, owners = np.array(numbers, np.int64), {"": len(numbers)}
        if self.rank != first:
            self.exchange([(first, result.copy(), owners)], [(first, result, owners)], phase, "control")
            return result
        arrived = np.empty((len(others), len(result)), np.int64)
        self.exchange([], [(r, row, owners) for r, row in zip(others, arrived)], phase, "control")
        result += arrived.sum(axis=0)
        firsts = [ranks[0] for ranks in self.machines if ranks[0] != self.rank]
        arrived = np.empty((len(firsts), len(result)), np.int64)
        self.exchange([(r, result, owners) for r in firsts], [(r, row, owners) for r, row in zip(firsts, arrived)],
                      phase, "control")
        result += arrived.sum(axis=0)
        self.exchange([(r, result, owners) for r in others], [], phase, "control")
        return result

    def gather_ledger(self, keys) -> np.ndarray | None:
        """Return (2, size, k) int64 on rank 0, None elsewhere: bytes sent and received by rank and key. Collective.

        It is for reports, and not counted itself.
        """
        both = self.ledger.sent, self.ledger.received
        mine = np.array([[counter[key] for key in keys] for counter in both], np.int64)
        everyone = np.empty((self.size, *mine.shape), np.int64) if self.rank == 0 else None
        self.waiter.for_collective(self.mpi.Igather(mine, everyone, root=0), "a report of bytes")
        return None if everyone is None else everyone.swapaxes(0, 1)


def _refuse_torchrun(mpi):
    """Raise CollectiveError if torchrun has started several processes. MPI would treat each as a job of one rank."""
    count = os.environ.get("WORLD_SIZE", "1")
    if mpi.Get_size() == 1 and "TORCHELASTIC_RUN_ID" in os.environ and count != "1":
        raise CollectiveError(f"torchrun has started {count} processes, and MPI did not start them: each would train "
                              f"by itself. Start them by MPI: mpirun -n {count} python SCRIPT")


def _find_machines(ranks: Agreement) -> Machines:
    """Return the groups of ranks that share memory, as MPI reports them. Collective."""
    what = "the search for ranks that share a machine"
    ranks.meet(what)  # a missing rank is named here: the next call has no time-out
    node = ranks.mpi.Split_type(MPI.COMM_TYPE_SHARED)
    first = MPI.Group.Translate_ranks(node.Get_group(), [0], ranks.mpi.Get_group())
    machines = machines_of(ranks.gather_numbers(first, what)[:, 0])
    node.Free()
    return machines
