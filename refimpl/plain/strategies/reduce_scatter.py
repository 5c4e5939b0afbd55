"""Reduce-scatter, update, allgather: each rank adds up, updates and sends out its own rows of a dense variable.

    rank 0 |a0 b0|   reduce-scatter   |A .|   update    |a .|   allgather   |a b|
    rank 1 |a1 b1|  --------------->  |. B|  -------->  |. b|  ---------->  |a b|
          gradients     push          sums             values    pull      values

An allreduce consists of the same two halves without the update between them. So it sends as many bytes, 2 (N - 1) / N
of w if all ranks own equal parts. But here each rank does only its part of the update, and keeps only 1 / N of the
optimizer's state. The optimizer works element by element, so it does not matter for the bits which rank does it.
Source: ZeRO, stage 1 (Rajbhandari et al. 2020).

    mpirun -n 4 python -m refimpl.plain.strategies.reduce_scatter
"""

import numpy as np
from mpi4py import MPI

from models import Variable
from refimpl.plain.adding.tree import add_up, by_node, nodes_by_rank
from refimpl.plain.messages import Messages
from refimpl.plain.updating.optimizers import Adam


class ReduceScatter:
    """One dense variable. ``values`` holds the consecutive rows that this rank owns; shares are as even as possible.

    Rows are not cut, because the norm adds up the squares of each whole row. A scalar counts as one row.
    """

    def __init__(self, messages, variable, seed, microbatches):
        self.messages, self.microbatches, self.shape = messages, microbatches, variable.shape
        whole = np.atleast_1d(variable.initial_value(seed))
        ends = [round(r * len(whole) / messages.size) for r in range(messages.size + 1)]
        self.rows = [slice(first, last) for first, last in zip(ends, ends[1:])]
        self.values = whole[self.rows[messages.rank]].copy()

    def pull(self):
        """Return the whole value: the rows of all ranks. Collective."""
        return self.whole(self.values, "pull dense")

    def push(self, nodes):
        """Return (None, this rank's rows of the gradient summed over all microbatches). Collective.

        nodes: {(start, stop): array}.
        """
        whole = [np.atleast_1d(gradient).astype(self.values.dtype) for gradient in nodes.values()]
        nothing = self.values[:0]  # what a rank without microbatches sends
        arrived = self.messages.exchange(
            [np.concatenate([nothing, *(gradient[rows] for gradient in whole)]) for rows in self.rows], "push dense")
        parts = by_node(nodes_by_rank(self.messages.size, self.microbatches), arrived)  # sums of this rank's rows
        return None, add_up(0, self.microbatches, parts, np.add).reshape(self.values.shape)

    def whole(self, array, phase="whole"):
        """Return on each rank the whole of an array that is divided among the ranks as ``values`` is. Collective."""
        return np.concatenate(self.messages.gather(array, phase)).reshape(self.shape)


def main(comm=MPI.COMM_WORLD):
    """Each rank pushes 4**rank for each element of a variable of 96 bytes, updates its rows and pulls all rows."""
    messages = Messages(comm)
    variable = ReduceScatter(messages, Variable("weight", (12, 2)), 0, comm.size)
    _, total = variable.push({(comm.rank, comm.rank + 1): np.full((12, 2), 4.0**comm.rank)})
    variable.values -= total
    state = sum(array.nbytes for array in Adam().state(variable.values).values())
    digits = {np.base_repr(int(-element), 4) for element in variable.pull().flat}
    messages.tell(f"owns {len(total)} of 12 rows, Adam would keep {state} B for them; all pulled {digits}, "
                  f"sent {dict(messages.sent)}")


if __name__ == "__main__":
    main()
