"""Reduce-scatter, update, allgather: each rank sums, updates and hands out its own rows of a dense variable.

    rank 0 |a0 b0|   reduce-scatter   |A .|   update    |a .|   allgather   |a b|
    rank 1 |a1 b1|  ---------------> |. B|  --------> |. b|  ----------> |a b|
          gradients     push          sums             values    pull      values

An allreduce is the same two halves with nothing between them: so the bytes are as many, 2 (N - 1) / N of w where the
ranks own as much. But no rank does another's part of the update, and each keeps 1 / N of the optimizer's state. The
optimizer works element by element: who does it changes no bit. (ZeRO, stage 1: Rajbhandari et al. 2020.)

    mpirun -n 4 python -m refimpl.plain.reduce_scatter
"""

import numpy as np
from mpi4py import MPI

from models import Variable
from refimpl.plain.messages import Messages
from refimpl.plain.optimizers import Adam
from refimpl.plain.tree import add_up, nodes_by_rank


class ReduceScatter:
    """One dense variable; ``values`` are the rows that this rank owns: neighbours, as even as can be.

    Rows are not cut, as the norm adds up each of them whole. A scalar is one row.
    """

    def __init__(self, messages, variable, seed, microbatches):
        self.messages, self.microbatches, self.shape = messages, microbatches, variable.shape
        whole = np.atleast_1d(variable.initial_value(seed))
        ends = [round(r * len(whole) / messages.size) for r in range(messages.size + 1)]
        self.rows = [slice(first, last) for first, last in zip(ends, ends[1:])]
        self.values = whole[self.rows[messages.rank]].copy()

    def pull(self):
        """Return the whole value: everybody's rows. Collective."""
        return self.whole(self.values, "pull dense")

    def push(self, nodes):
        """Return (None, this rank's rows of the gradient summed over all microbatches). Collective.

        nodes: {(start, stop): array}.
        """
        whole = [np.atleast_1d(gradient).astype(self.values.dtype) for gradient in nodes.values()]
        arrived = self.messages.exchange(
            [np.concatenate([self.values[:0], *(gradient[rows] for gradient in whole)]) for rows in self.rows],
            "push dense")
        parts = {}
        for names, rows in zip(nodes_by_rank(self.messages.size, self.microbatches), arrived):
            parts |= zip(names, rows.reshape(len(names), *self.values.shape))
        return None, add_up(0, self.microbatches, parts, np.add)

    def whole(self, array, phase="whole"):
        """Return on every rank an array of which each keeps its rows, as ``values``. Collective."""
        return np.concatenate(self.messages.gather(array, phase)).reshape(self.shape)


def main(comm=MPI.COMM_WORLD):
    """Each rank pushes 4**rank for each element of a variable of 96 bytes, updates its rows, and pulls them all."""
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
