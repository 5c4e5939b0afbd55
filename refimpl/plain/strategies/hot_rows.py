"""Hot rows: every rank keeps a copy of the first H rows of a table. The other rows stay with their owners.

Words are numbered by falling frequency, so nearly every rank needs the first rows in every step. The server would send
each of these rows to all ranks, and would receive their gradients from all ranks. An allreduce sends fewer bytes.

    rows 0 to H - 1   on every rank; one allreduce adds up the gradients of all H rows, also of rows without a gradient
    rows from H on    on the server (refimpl.plain.strategies.server)

Beside each row the allreduce adds up how many gradients the row has. A row without a gradient is not updated.

    mpirun -n 4 python -m refimpl.plain.strategies.hot_rows
"""

from dataclasses import replace

import numpy as np
from mpi4py import MPI

from kernels import RowGradient
from models import Variable
from refimpl.plain.collectives.allreduce import allreduce
from refimpl.plain.messages import Messages
from refimpl.plain.strategies.server import Server


class HotRows:
    """One sparse variable: the same methods as the server's, and the same answers. ``values``: hot rows, then own rows.

    hot: H.
    """

    def __init__(self, messages, variable, seed, microbatches, hot):
        self.messages, self.microbatches, self.hot = messages, microbatches, hot
        whole = variable.initial_value(seed)
        self.server = Server(messages, replace(variable, shape=whole[hot:].shape), seed, microbatches)
        self.values = np.concatenate([whole[:hot], whole[hot:][self.server.own]])
        self.server.values = self.values[hot:]  # of the whole table; a view, which an update of ``values`` changes

    def pull(self, rows):
        """Return the current values (k, d) of rows (k,), which are sorted and unique. Collective."""
        hot, cold = rows[rows < self.hot], rows[rows >= self.hot]
        return np.concatenate([self.values[hot], self.server.pull(cold - self.hot)])

    def push(self, nodes):
        """Return (places, rows) as the server does, hot rows first. Every rank has the same sums of these. Collective.

        nodes: {(start, stop): RowGradient} of this rank's microbatches, see ``tree.form_nodes``.
        """
        # the last column counts gradients; x + -0.0 is x
        marked = np.full((len(nodes), self.hot, self.values.shape[1] + 1), -0.0, self.values.dtype)
        cold = {}
        for (node, gradient), array in zip(nodes.items(), marked):
            first = np.searchsorted(gradient.ids, self.hot)  # the number of hot rows
            array[gradient.ids[:first], :-1], array[gradient.ids[:first], -1] = gradient.rows[:first], 1
            cold[node] = RowGradient(gradient.ids[first:] - self.hot, gradient.rows[first:])
        flat = marked.reshape(len(nodes), self.hot * (self.values.shape[1] + 1))
        total = allreduce(self.messages, flat, self.microbatches).reshape(marked.shape[1:])
        touched = np.flatnonzero(total[:, -1])
        places, rows = self.server.push(cold)
        return np.append(touched, self.hot + places), np.concatenate([total[touched, :-1], rows])


def main(comm=MPI.COMM_WORLD):
    """All ranks need the first 6 of 40 rows, and each rank one more. Print the bytes without and with hot rows."""
    variable, rows = Variable("table", (40, 2), sparse=True), np.append(np.arange(6), 6 + comm.rank)
    for hot in (0, 6):
        messages = Messages(comm)
        table = HotRows(messages, variable, 0, comm.size, hot)
        gradient = RowGradient(rows, np.full_like(table.pull(rows), 4.0**comm.rank))
        places, total = table.push({(comm.rank, comm.rank + 1): gradient})
        table.values[places] -= 0.1 * total
        digits = {np.base_repr(int(row[0]), 4) for row in total}
        messages.tell(f"{hot} hot rows: summed {sorted(digits)}, sent {sum(messages.sent.values())} B")


if __name__ == "__main__":
    main()
