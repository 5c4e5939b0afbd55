"""The ranks of a support vector machine: the messages of ``models.svm.solver``, over a communicator."""

from refimpl.transport import Communicator


class SvmRanks:
    """The two exchanges of the solver. Every byte is in the communicator's ledger.

    A gather of k numbers sends 8 k bytes to each other rank. A spread of n numbers sends 8 n from the owner to each.
    """

    def __init__(self, comm: Communicator):
        self.comm, self.rank, self.size, self.planned = comm, comm.rank, comm.size, comm.size

    @classmethod
    def of(cls, comm=None) -> "SvmRanks":
        """Return the ranks of mpi4py's communicator; None: all ranks. Collective."""
        return cls(Communicator.of(comm))

    def gather(self, array, phase: str):
        """Return (size, ...): every rank's array, by rank. Collective."""
        return self.comm.share(array, phase)

    def spread(self, arrays, phase: str):
        """Send ``arrays[rank]`` to all ranks, receive the others into ``arrays``; send no empty ones. Collective."""
        counted = [{"": array.size} for array in arrays]
        others = [rank for rank in range(self.size) if rank != self.rank]
        sends = [(rank, arrays[self.rank], counted[self.rank]) for rank in others if arrays[self.rank].size]
        receives = [(rank, arrays[rank], counted[rank]) for rank in others if arrays[rank].size]
        self.comm.exchange(sends, receives, phase, "rows")
