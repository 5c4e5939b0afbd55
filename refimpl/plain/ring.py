"""Ring allreduce: every rank ends with the sum, and sends 2 (N - 1) / N of the vector: nobody could send less.

    N - 1 steps: each rank passes a chunk to its right neighbour, which adds its own. Then rank r has chunk r + 1 whole.
    N - 1 steps: each rank passes the whole chunk that it got last to the right.      Then everybody has everything.

Each chunk is added up along the ring from another rank on: for each N another order, so other bits. The canonical
allreduce (refimpl.plain.allreduce) sends as much, in the microbatch tree's order. Source: Patarasuk & Yuan 2009.

    mpirun -n 4 python -m refimpl.plain.ring
"""

import numpy as np
from mpi4py import MPI


def ring_allreduce(comm, vector):
    """Replace ``vector`` (n,) by its sum over all ranks; return the bytes that this rank sent. Collective."""
    rank, size, sent = comm.Get_rank(), comm.Get_size(), 0
    left, right = (rank - 1) % size, (rank + 1) % size

    def chunk(number):
        c = number % size
        return vector[c * len(vector) // size:(c + 1) * len(vector) // size]

    for step in range(size - 1):  # reduce-scatter
        mine = chunk(rank - step - 1)
        arrived = np.empty_like(mine)
        comm.Sendrecv(chunk(rank - step), right, recvbuf=arrived, source=left)
        mine += arrived
        sent += chunk(rank - step).nbytes
    for step in range(size - 1):  # allgather
        comm.Sendrecv(chunk(rank + 1 - step), right, recvbuf=chunk(rank - step), source=left)
        sent += chunk(rank + 1 - step).nbytes
    return sent


def main(comm=MPI.COMM_WORLD, length=12):
    """Rank r gives 4**r: the sum's digits to the base 4 tell which rank was counted how often."""
    vector = np.full(length, 4.0**comm.rank)
    sent = ring_allreduce(comm, vector)
    needed = 2 * (comm.size - 1) * vector.nbytes / comm.size
    if comm.rank == 0:
        digits = [np.base_repr(int(element), 4) for element in vector]
        print(f"rank 0 has {digits}; it sent {sent} B; 2 (N - 1) / N of the {vector.nbytes} B are {needed:g} B")


if __name__ == "__main__":
    main()
