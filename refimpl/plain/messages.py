"""Messages between ranks, counted: every rank sends every other an array, whose length it tells first."""

from collections import Counter

import numpy as np

from kernels import RowGradient
from kernels.rows.definition import merge_rows


class Messages:
    """The ranks of an mpi4py communicator, and the bytes that this one sent: ``sent[phase]``.

    each: ranks of a machine, consecutive ones. What stays on the machine is not counted, nor are lengths: they are no
    gradient's bytes.
    """

    def __init__(self, comm, each=1):
        self.comm, self.rank, self.size = comm, comm.Get_rank(), comm.Get_size()
        self.each, self.sent = each, Counter()

    def exchange(self, outgoing, phase):
        """Send array outgoing[r] to each rank r; return the arrays that the ranks sent to this one, by rank.

        Arrays: one dtype, one shape but for axis 0. Collective.
        """
        lengths = np.empty(self.size, np.int64)
        self.comm.Alltoall(np.array([len(array) for array in outgoing], np.int64), lengths)
        incoming = [np.empty((n, *outgoing[0].shape[1:]), outgoing[0].dtype) for n in lengths]
        incoming[self.rank] = outgoing[self.rank]
        others = [r for r in range(self.size) if r != self.rank]
        requests = [self.comm.Irecv(incoming[r], r) for r in others]
        for r in others:
            requests.append(self.comm.Isend(np.ascontiguousarray(outgoing[r]), r))
            if r // self.each != self.rank // self.each:
                self.sent[phase] += outgoing[r].nbytes
        for request in requests:
            request.Wait()
        return incoming

    def gather(self, array, phase):
        """Send ``array`` to every rank; return everybody's, by rank. Collective."""
        return self.exchange([array] * self.size, phase)

    def tell(self, text):
        """Print this rank's text, ranks in their order. Collective."""
        for rank, line in enumerate(self.comm.allgather(text)):
            if self.rank == 0:
                print(f"rank {rank}: {line}", flush=True)


def exchange_nodes(send, nodes, nodes_of, empty, phase):
    """Exchange row gradients; return {node: RowGradient} of all that came, for ``tree.add_up``. Collective.

    nodes: this rank's, {(start, stop): RowGradient}.  nodes_of[r]: the names of rank r's.  empty: what a rank with
    fewer nodes sends instead.  send(ids, array, phase) -> arrays: sends each row's part of ``array`` where it goes.
    """
    mine, came = list(nodes.values()), {}
    for i in range(max(map(len, nodes_of))):
        gradient = mine[i] if i < len(mine) else empty
        ids = send(gradient.ids, gradient.ids, f"{phase} row numbers")
        rows = send(gradient.ids, gradient.rows, f"{phase} rows")
        for names, *pair in zip(nodes_of, ids, rows):
            if i < len(names):
                part = RowGradient(*pair)  # aggregators of a machine bring the same node, each of other rows
                came[names[i]] = merge_rows(came[names[i]], part) if names[i] in came else part
    return came
