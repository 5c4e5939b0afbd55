"""Messages between ranks, with their bytes counted. Every rank sends one array to each other rank.

The ranks exchange the lengths of the arrays first, so that each can allocate what it will receive.
"""

from collections import Counter

import numpy as np

from kernels import RowGradient
from kernels.rows.definition import merge_rows


class Messages:
    """The ranks of an mpi4py communicator, and the bytes that this rank sent: ``sent[phase]``.

    each: the number of consecutive ranks that share a machine; by default each rank is a machine of its own. Only bytes
    that leave a machine are counted. The lengths are not counted, because they are not part of a gradient.
    """

    def __init__(self, comm, each=1):
        self.comm, self.rank, self.size = comm, comm.Get_rank(), comm.Get_size()
        self.each, self.sent = each, Counter()

    def exchange(self, outgoing, phase):
        """Send outgoing[r] to each rank r; return the list of arrays that the ranks sent to this one. Collective.

        All arrays have the same dtype and the same shape except for axis 0.
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
        """Send ``array`` to every rank; return the list of all ranks' arrays. Collective."""
        return self.exchange([array] * self.size, phase)

    def tell(self, text):
        """Print the text of each rank, in rank order. Collective."""
        for rank, line in enumerate(self.comm.allgather(text)):
            if self.rank == 0:
                print(f"rank {rank}: {line}", flush=True)


def exchange_nodes(send, nodes, nodes_of, empty, phase):
    """Exchange row gradients; return {node: RowGradient} of all that arrived, for ``tree.add_up``. Collective.

    A node is a pair (start, stop). Its row gradient is the sum of microbatches start to stop - 1 (see ``adding.tree``).
    nodes: those of this rank, {node: RowGradient}.  nodes_of[r]: the nodes of rank r.
    send(ids, array, phase): a function. array[i] belongs to row ids[i]; it is sent to all ranks that add up this row.
    The function returns a list: what each rank sent to this one.
    One node of each rank is sent at a time. A rank that has no more nodes sends the row gradient ``empty``.
    """
    mine, arrived = list(nodes.values()), {}
    for i in range(max(map(len, nodes_of))):  # node number i of every rank
        gradient = mine[i] if i < len(mine) else empty
        ids = send(gradient.ids, gradient.ids, f"{phase} row numbers")
        rows = send(gradient.ids, gradient.rows, f"{phase} rows")
        for theirs, some_ids, some_rows in zip(nodes_of, ids, rows):  # from each rank
            if i < len(theirs):
                node, part = theirs[i], RowGradient(some_ids, some_rows)
                # With local aggregation (``aggregation``) several ranks of a machine send rows of the same node.
                arrived[node] = merge_rows(arrived[node], part) if node in arrived else part
    return arrived
