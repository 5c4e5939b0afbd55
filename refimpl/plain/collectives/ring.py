"""Ring allreduce: every rank gets the sum, and sends 2 (N - 1) / N of the vector, the fewest bytes that are possible.

    N - 1 rounds: each rank sends a chunk to its right neighbour, which adds its own. After these rounds rank r has the
                  sum of chunk r + 1.
    N - 1 rounds: each rank sends the complete chunk that it received last. After these rounds every rank has all sums.

The sum of each chunk begins at a different rank. So the order of addition, and with it the last bits, depend on N. The
allreduce of refimpl.plain.collectives.allreduce adds in an order that does not depend on N.
Source: Patarasuk & Yuan 2009.

    mpirun -n 4 python -m refimpl.plain.collectives.ring
"""

import numpy as np
from mpi4py import MPI


def ring_allreduce(comm, vector):
    """Replace ``vector`` (n,) by its sum over all ranks; return the bytes that this rank sent. Collective."""
    rank, size, sent = comm.Get_rank(), comm.Get_size(), 0
    left, right = (rank - 1) % size, (rank + 1) % size

    def chunk(number):  # a view: whatever is received into it, or added to it, changes ``vector``
        c = number % size
        return vector[c * len(vector) // size:(c + 1) * len(vector) // size]

    for i in range(size - 1):  # reduce-scatter
        mine = chunk(rank - i - 1)
        arrived = np.empty_like(mine)
        comm.Sendrecv(chunk(rank - i), right, recvbuf=arrived, source=left)
        mine += arrived
        sent += chunk(rank - i).nbytes
    for i in range(size - 1):  # allgather
        comm.Sendrecv(chunk(rank + 1 - i), right, recvbuf=chunk(rank - i), source=left)
        sent += chunk(rank + 1 - i).nbytes
    return sent


def main(comm=MPI.COMM_WORLD, length=12):
    """Rank r contributes 4**r: the digits of the sum in base 4 tell how often each rank was counted."""
    vector = np.full(length, 4.0**comm.rank)
    sent = ring_allreduce(comm, vector)
    needed = 2 * (comm.size - 1) * vector.nbytes / comm.size
    if comm.rank == 0:
        digits = [np.base_repr(int(element), 4) for element in vector]
        print(f"rank 0 has {digits}; it sent {sent} B; 2 (N - 1) / N of the {vector.nbytes} B are {needed:g} B")


if __name__ == "__main__":
    main()
