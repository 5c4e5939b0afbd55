"""The communicator: how ranks are opened, and what all of them learn from each other.

    Agreement        they go on together or stop together                  agreement.py
    ArrayExchange    they move arrays, host's and device's, and count      exchange.py
    Communicator     they know their machines; they share and add numbers  this file
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


class Communicator(ArrayExchange):
    """All that ranks do with each other. Local to make: all ranks say the same of their machines; else see ``of``.

    mpi: mpi4py's communicator.
    machines: which ranks share memory. One machine can be split into several, as tests do.
    timeout: seconds that a rank waits without any progress before it gives its peers up (SilentPeer).
    """

    @classmethod
    def of(cls, comm=None, timeout: float = TIMEOUT_SECONDS) -> "Communicator":
        """Return ``comm`` itself if it is one; else one over mpi4py's communicator ``comm``. Collective over ``comm``.

        comm: None: of all ranks.  MPI is asked which of them share a machine.
        Raises CollectiveError in processes that PyTorch's launcher has started, as MPI does not know of the others.
        """
        if isinstance(comm, cls):
            return comm
        mpi = MPI.COMM_WORLD if comm is None else comm
        tell_once()
        tell_end()
        if comm is None:
            _refuse_torchrun(mpi)
        found = cls(mpi, _find_machines(Agreement(mpi, timeout)), timeout)
        if found.rank == found.machine[0]:
            remove_leftovers()
        return found

    @classmethod
    def alone(cls) -> "Communicator":
        """Return a communicator of this rank by itself. Local."""
        return cls(MPI.COMM_SELF, ((0,),))

    def first(self, count: int) -> "Communicator | None":
        """Return a communicator of the ``count`` lowest ranks; None on the others. Collective. End it with ``free``."""
        self.meet(f"a communicator of {count} ranks")  # what follows cannot be polled: a missing rank is named before
        if self.rank >= count:
            return None
        mpi = self.mpi.Create_group(self.mpi.Get_group().Incl(range(count)))
        kept = (tuple(rank for rank in ranks if rank < count) for ranks in self.machines)
        return Communicator(mpi, tuple(ranks for ranks in kept if ranks), self.timeout)

    def free(self):
        """Give MPI's communicator back; this one must not be used any more. Collective; nothing is under way."""
        self.meet("the end of a communicator")
        self.mpi.Free()

    def add_device(self, number: int, transport: str = "auto"):
        """Let device arrays travel, too, which lie on this machine's GPU ``number``. Collective: all ranks have a GPU.

        transport: how, see ``open_transport``.  ``device_transport`` is what was opened; its ``reason`` says why.
        """
        self.device_transport = open_transport(self, number, transport)

    @property
    def threads(self) -> bool:
        """Whether any thread may use the communicator, if no two do at the same time. Local."""
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

        A machine's ranks send theirs to its first; the machines' firsts add up what each other has, and hand the sum
        back: one message between two machines, each way. Counted as control.
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

        For reports; not on the data path, not counted.
        """
        both = self.ledger.sent, self.ledger.received
        mine = np.array([[counter[key] for key in keys] for counter in both], np.int64)
        everyone = np.empty((self.size, *mine.shape), np.int64) if self.rank == 0 else None
        self.waiter.for_collective(self.mpi.Igather(mine, everyone, root=0), "a report of bytes")
        return None if everyone is None else everyone.swapaxes(0, 1)


def _refuse_torchrun(mpi):
    """Raise CollectiveError if torchrun has started several processes, each of which MPI takes for all there is."""
    count = os.environ.get("WORLD_SIZE", "1")
    if mpi.Get_size() == 1 and "TORCHELASTIC_RUN_ID" in os.environ and count != "1":
        raise CollectiveError(f"torchrun has started {count} processes, and MPI did not start them: each would train "
                              f"by itself. Start them by MPI: mpirun -n {count} python -m mpi4py SCRIPT")


def _find_machines(ranks: Agreement) -> Machines:
    """Return the groups of ranks that can share memory, as MPI knows them. Collective."""
    what = "the search for ranks that share a machine"
    ranks.meet(what)  # what follows cannot be polled: a missing rank is named before
    node = ranks.mpi.Split_type(MPI.COMM_TYPE_SHARED)
    first = MPI.Group.Translate_ranks(node.Get_group(), [0], ranks.mpi.Get_group())
    machines = machines_of(ranks.gather_numbers(first, what)[:, 0])
    node.Free()
    return machines
