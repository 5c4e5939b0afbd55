"""The comm: the only place that knows MPI. It moves arrays, counts bytes, and makes all ranks agree or stop.

Uppercase (buffer) calls only: nothing is pickled. NumPy arrays travel by MPI; device arrays by a ``transport``.
"""

from functools import cached_property

import numpy as np
from mpi4py import MPI

from kernels import is_numpy
from refimpl.transport.abort import Notices, Stopped
from refimpl.transport.choice import open_transport
from refimpl.transport.ledger import Ledger
from refimpl.transport.machines import Machines, machine_of, machines_of
from refimpl.transport.packed import pack, rooms, unpack
from refimpl.transport.waiting import PATIENCE_SECONDS, CollectiveError, SilentPeer, wait_all


class Communicator:
    """A communicator with a ledger. ``ledger`` counts the payload of every message that leaves or reaches this rank.

    machines: which ranks share memory (collective to find, where it is not given): give it to split one machine into
    several, as tests do.
    patience: seconds that a rank waits without any progress before it gives its peers up (SilentPeer).
    device: number of this rank's GPU, for ``add_device`` (collective); None: there are NumPy arrays only.
    """

    def __init__(self, comm=None, machines: Machines | None = None, patience: float = PATIENCE_SECONDS,
                 device: int | None = None):
        self.patience = patience
        self.mpi = MPI.COMM_WORLD if comm is None else comm
        self.rank, self.size = self.mpi.Get_rank(), self.mpi.Get_size()
        self.machines = find_machines(self.mpi) if machines is None else machines
        self.ledger, self.notices = Ledger(), Notices(self.mpi)
        self.transport = None
        if device is not None:
            self.add_device(device)

    @classmethod
    def of(cls, comm=None) -> "Communicator":
        """Return ``comm`` itself if it is one; else one over mpi4py's communicator ``comm``, None: of all ranks."""
        return comm if isinstance(comm, cls) else cls(comm)

    def add_device(self, number: int, transport: str = "auto"):
        """Let device arrays travel, too, which lie on this machine's GPU ``number``. Collective: all ranks have a GPU.

        transport: how, see ``open_transport``.  ``self.transport`` is what was opened; its ``reason`` says why.
        """
        self.transport = open_transport(self, number, transport)

    @property
    def threads(self) -> bool:
        """Whether any thread may use the communicator, if no two do at the same time."""
        return MPI.Query_thread() == MPI.THREAD_MULTIPLE

    @cached_property
    def machine(self) -> tuple[int, ...]:
        """The ranks of this rank's machine."""
        return self.machines[machine_of(self.machines, self.rank)]

    @cached_property
    def machine_mpi(self):
        """The communicator of this rank's machine, in order of rank. Collective over the machine's ranks, once."""
        return self.mpi.Create_group(self.mpi.Get_group().Incl(self.machine))

    def exchange(self, sends, receives, phase: str, kind: str, packed: bool = True):
        """Move arrays between ranks, all at once. Collective over the ranks concerned.

        sends, receives: lists of (peer, array, {variable: elements}); messages of one pair keep their order. Empty
        arrays are not sent. Arrays are contiguous; what is sent must not be written before the call returns. Of device
        arrays, that holds for the current stream: its later work finds all moved, the host need not (see ``settle``).
        packed: whether small NumPy arrays of a pair travel in one message (see ``packed``); all ranks say the same.
        Raises SilentPeer if a peer does not come within the communicator's patience.
        """
        self.start(sends, receives, phase, kind, packed).wait()

    def start(self, sends, receives, phase: str, kind: str, packed: bool = True) -> "Pending":
        """Begin an ``exchange`` and return it. Collective over the ranks concerned, as is ``Pending.wait``.

        Until it is waited for, what is sent must not be written and what is received not read.
        """
        what = f"{phase} ({kind})"
        receives, to_device = self._counted("received", receives, phase, kind)
        sends, from_device = self._counted("sent", sends, phase, kind)
        pending = self.post(sends, receives, what, packed)
        pending.on_device = self.move(from_device, to_device, what) if from_device or to_device else None
        return pending

    def post(self, sends, receives, what: str, packed: bool = False) -> "Pending":
        """Begin to move NumPy arrays, lists of (peer, array), uncounted. Collective over the ranks concerned.

        what: its name in errors.  packed: as for ``exchange``; otherwise what comes may be shorter than its room.
        """
        rest = []
        if packed:
            sends, (receives, rest) = pack(sends), rooms(receives)
        requests = [self.mpi.Irecv(array, peer, 0) for peer, array in receives]  # no tag at all would take notices too
        requests += [self.mpi.Isend(array, peer) for peer, array in sends]
        return Pending(self, requests, [peer for peer, _ in receives + sends], what, rest)

    def _counted(self, direction, messages, phase, kind):
        """Count messages; return those of NumPy arrays, and those of device arrays: lists of (peer, array)."""
        on_host, on_device = [], []
        for peer, array, owners in messages:
            if array.size:
                (on_host if is_numpy(array) else on_device).append((peer, array))
                self.ledger.count(direction, peer not in self.machine, phase, owners, kind, array.itemsize)
        return on_host, on_device

    def move(self, sends, receives, what: str):
        """Begin to move device arrays, lists of (peer, array), uncounted; return what has to be waited for.

        Collective over the ranks concerned. Raises ValueError on a communicator without a device.
        """
        if self.transport is None:
            kind = type((sends or receives)[0][1]).__module__
            raise ValueError(f"this communicator moves NumPy arrays, not those of {kind}: make it with Communicator(comm, device=...)")
        return self.transport.start(sends, receives, what)

    def settle(self, unless=lambda: False):
        """Return when no peer is waited for on the device: to be called before the host reads what lies there. Local.

        To read first would be to wait for peers without an end. Raises SilentPeer, and what a transport met.
        unless() is true: return at once, for other work.
        """
        if self.transport is not None:
            self.transport.settle(unless)

    def wait_for(self, requests, peers, what: str):
        """Return when MPI's requests are complete, see ``wait_all``. Local."""
        wait_all(requests, self.patience, self.rank, peers, what, self.notices.heed, self.notices.absent)

    def _wait_for_all(self, request, what):
        """A collective of MPI's, which cannot say which rank is late: the ranks that wait for it can."""
        wait_all([request], self.patience, self.rank, [], what, self.notices.heed, self.notices.absent)

    def share(self, array, phase: str):
        """Return (size, *shape): every rank's array of one shape and dtype, by rank. Collective."""
        array = np.ascontiguousarray(array)
        result = np.empty((self.size, *array.shape), array.dtype)
        result[self.rank] = array
        others = [r for r in range(self.size) if r != self.rank]
        owners = {"": array.size}
        self.exchange([(r, array, owners) for r in others], [(r, result[r], owners) for r in others], phase, "control")
        return result

    def total(self, numbers, phase: str):
        """Return the sum over all ranks of ``numbers``: (k,) int64, the same on every rank. Collective.

        A machine's ranks send theirs to its first, these add up what the machines have, and hand it back: one message
        between two machines, each way.
        """
        first, *mates = self.machine
        result, owners = np.array(numbers, np.int64), {"": len(numbers)}
        if self.rank != first:
            self.exchange([(first, result.copy(), owners)], [(first, result, owners)], phase, "control")
            return result
        arrived = np.empty((len(mates), len(result)), np.int64)
        self.exchange([], [(r, row, owners) for r, row in zip(mates, arrived)], phase, "control")
        result += arrived.sum(axis=0)
        firsts = [ranks[0] for ranks in self.machines if ranks[0] != self.rank]
        arrived = np.empty((len(firsts), len(result)), np.int64)
        self.exchange([(r, result, owners) for r in firsts], [(r, row, owners) for r, row in zip(firsts, arrived)],
                      phase, "control")
        result += arrived.sum(axis=0)
        self.exchange([(r, result, owners) for r in mates], [], phase, "control")
        return result

    def gather_ledger(self, keys):
        """Return (2, size, k) int64 on rank 0, None elsewhere: bytes sent and received by rank and key. Collective.

        For reports; not on the data path, not counted.
        """
        both = self.ledger.sent, self.ledger.received
        mine = np.array([[counter[key] for key in keys] for counter in both], np.int64)
        everyone = np.empty((self.size, *mine.shape), np.int64) if self.rank == 0 else None
        self._wait_for_all(self.mpi.Igather(mine, everyone, root=0), "a report of bytes")
        return None if everyone is None else everyone.swapaxes(0, 1)

    def share_text(self, text: str) -> list[str]:
        """Return every rank's text, by rank. Collective; not on the data path, not counted."""
        mine = np.frombuffer(text.encode(), np.uint8)
        lengths = np.empty(self.size, np.int64)
        self._wait_for_all(self.mpi.Iallgather(np.array([mine.size], np.int64), lengths), "an exchange of texts")
        everything = np.empty(int(lengths.sum()), np.uint8)
        self._wait_for_all(self.mpi.Iallgatherv(mine, (everything, lengths)), "an exchange of texts")
        ends = np.cumsum(lengths)
        return [everything[end - n:end].tobytes().decode() for n, end in zip(lengths, ends)]

    def agree(self, error: BaseException | None = None):
        """Go on together or stop together: raise CollectiveError on every rank if any rank brings an error. Collective.

        The message names each rank that brought one (once for all ranks that say the same), and is the same everywhere.
        But with a silent peer, or after a notice, nobody can agree: that is raised again at once, on this rank alone.
        """
        if isinstance(error, (SilentPeer, Stopped)):
            raise error
        flags = np.empty(1, np.int64)
        mine = np.array([error is not None], np.int64)
        self._wait_for_all(self.mpi.Iallreduce(mine, flags, MPI.MAX), "the check that all ranks go on")
        if flags[0]:
            raise CollectiveError(self._message(error)) from error

    def together(self, work, errors=(Exception,)):
        """Return work(), done on each rank for itself; where it raises one of ``errors``, all fail. Collective."""
        result, error = None, None
        try:
            result = work()
        except errors as problem:
            error = problem
        self.agree(error)
        return result

    def once(self, work) -> str:
        """Return the text that work() returns, done on rank 0 for everyone; where it raises, all fail. Collective.

        For what all ranks would find alike, but slower where they share cores, and with the risk that they do not.
        """
        return self.share_text(self.together(lambda: "" if self.rank else work()))[0]

    def stop(self, error: Exception):
        """Raise ``error``, met here in the middle of an exchange, on all ranks: on the others where they wait. Local.

        What all ranks know of (CollectiveError) is raised as it is. What moves on a device is given up, unless all
        ranks have agreed to stop: somebody would wait for it for ever.
        """
        agreed = isinstance(error, CollectiveError)
        text = "" if agreed else _words(error) if self.size == 1 else f"rank {self.rank}: {_words(error)}"
        if not agreed:
            self.notices.tell(text)
        if self.transport is not None and (not agreed or isinstance(error, (SilentPeer, Stopped))):
            self.transport.close()
        if agreed:
            raise error
        raise Stopped(text) from error

    def _message(self, error):
        text = "" if error is None else _words(error)
        said: dict[str, list[int]] = {}
        for rank, words in enumerate(self.share_text(text)):
            if words:
                said.setdefault(words, []).append(rank)
        if list(said.values()) == [list(range(self.size))]:
            return next(iter(said))
        return "; ".join(f"{'rank' if len(r) == 1 else 'ranks'} {', '.join(map(str, r))}: {w}" for w, r in said.items())


def find_machines(mpi) -> Machines:
    """Return the groups of ranks of ``mpi`` that can share memory, as MPI knows them. Collective over ``mpi``."""
    node = mpi.Split_type(MPI.COMM_TYPE_SHARED)
    leader = np.empty(1, np.int64)
    leader[0] = mpi.Get_rank()
    node.Bcast(leader, root=0)
    node.Free()
    colors = np.empty(mpi.Get_size(), np.int64)
    mpi.Allgather(leader, colors)
    return machines_of(colors)


class Pending:
    """Messages under way, begun by ``Communicator.start``. The arrays that move must be kept until ``wait`` returns."""

    def __init__(self, comm: Communicator, requests, peers, what: str, packed=()):
        self.comm, self.requests, self.peers, self.what, self.packed = comm, requests, peers, what, packed
        self.on_device = None

    def wait(self):
        """Return when all has come and gone. Raises SilentPeer if a peer does not come within the communicator's patience."""
        if self.requests:
            self.comm.wait_for(self.requests, self.peers, self.what)
            unpack(self.packed)
        if self.on_device is not None:
            self.on_device.wait()


def _is_refusal(error) -> bool:
    """True for errors whose text was written for people (ValueError, OSError and ours), not for programmers."""
    return isinstance(error, (ValueError, OSError, CollectiveError))


def _words(error) -> str:
    return str(error) if _is_refusal(error) else f"{type(error).__name__}: {error}"
