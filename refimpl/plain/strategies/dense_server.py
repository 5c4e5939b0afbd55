"""Dense variables on the parameter server: one owner keeps each, sends it to all ranks and adds up their gradients.

For a variable of w bytes this sends 2 w (N - 1) bytes in all, as many as an allreduce. But all of them pass through the
owner, while an allreduce spreads them over the ranks. That is why the hybrid sums dense gradients by allreduce.

    mpirun -n 4 python -m refimpl.plain.strategies.dense_server
"""

import numpy as np
from mpi4py import MPI

from models import Variable
from refimpl.plain.adding.tree import add_up, by_node, nodes_by_rank
from refimpl.plain.messages import Messages


class DenseServer:
    """One dense variable, kept by rank ``owner``. On all other ranks ``values`` is empty."""

    def __init__(self, messages, variable, seed, microbatches, owner=0):
        self.messages, self.microbatches, self.owner = messages, microbatches, owner
        self.shape, self.size = variable.shape, variable.size
        self.values = variable.initial_value(seed) if messages.rank == owner else np.empty(0, variable.dtype)

    def pull(self):
        """Return the whole value. Collective."""
        return self.whole(self.values, "pull dense")

    def push(self, nodes):
        """Return (None for row numbers, gradient): the sum on the owner, elsewhere an empty array. Collective."""
        flat = np.array(list(nodes.values()), self.values.dtype).reshape(len(nodes), self.size)
        outgoing = [flat if r == self.owner else flat[:0] for r in range(self.messages.size)]
        arrived = self.messages.exchange(outgoing, "push dense")
        if self.messages.rank != self.owner:
            return None, self.values
        parts = by_node(nodes_by_rank(self.messages.size, self.microbatches), arrived)
        return None, add_up(0, self.microbatches, parts, np.add).reshape(self.shape)

    def whole(self, array, phase="whole"):
        """Return on every rank an array that only the owner has. Collective."""
        return self.messages.gather(array.reshape(-1), phase)[self.owner].reshape(self.shape)


def main(comm=MPI.COMM_WORLD):
    """Each rank pulls a variable of 40 bytes and pushes a gradient of 4**rank for each element."""
    messages = Messages(comm)
    server = DenseServer(messages, Variable("weight", (5, 2)), 0, comm.size)
    _, total = server.push({(comm.rank, comm.rank + 1): np.full_like(server.pull(), 4.0**comm.rank)})
    digits = np.base_repr(int(total[0, 0]), 4) if total.size else "nothing"
    messages.tell(f"summed {digits}, sent {dict(messages.sent)}")


if __name__ == "__main__":
    main()
