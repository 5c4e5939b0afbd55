"""Equals plain/model_parallel/groups.py: the messages between the K members of a group, for the layers that are cut.

    forward      gather_rows ─▶ layer ─▶ gather_columns ─▶ layer ─▶ own_rows
    backward     add_rows    ◀─ layer ◀─ add_columns    ◀─ layer ◀─ own_columns

A matrix has the examples of a round, member by member; columns are divided into K equal parts. Sums are added in the
order of the tree over column blocks. Every message is counted as ``activations`` of the named layer.
"""

from itertools import accumulate

from kernels.arrays import array_module
from models.fully_connected import tree_sum
from refimpl.plan.mesh import Mesh

KIND = "activations"


class Group:
    """The members of this rank's group. The constructor is local; every method is collective over the group.

    comm: of all ranks.  Raises SilentPeer, Aborted as ``comm.exchange``.
    """

    def __init__(self, comm, mesh: Mesh):
        self.comm, self.members, self.size = comm, tuple(mesh.group(comm.rank)), mesh.model
        self.me = mesh.member(comm.rank)
        self.others = [(i, rank) for i, rank in enumerate(self.members) if i != self.me]

    def start_rows(self, x, counts, name: str):
        """Begin to gather all members' rows; return (the pending messages, the matrix that receives the rows).

        x: (counts[me], d), contiguous.  counts: rows of each member.
        """
        xp, ends = array_module(x), _ends(counts)
        matrix = xp.empty((ends[-1], x.shape[1]), x.dtype)
        matrix[ends[self.me]:ends[self.me + 1]] = x
        sends = [(rank, x, {name: x.size}) for _, rank in self.others]
        boxes = [(rank, matrix[ends[i]:ends[i + 1]]) for i, rank in self.others]
        return self.comm.start(sends, [(rank, box, {name: box.size}) for rank, box in boxes], "rows", KIND), matrix

    def add_rows(self, partial, counts, name: str):
        """Return this member's rows of the sum of all members' ``partial``: ``start_rows`` backwards."""
        ends = _ends(counts)
        leaving = {i: partial[ends[i]:ends[i + 1]] for i in range(self.size)}
        return tree_sum(self._swap(leaving, leaving[self.me].shape, "rows", name))

    def gather_columns(self, y, name: str):
        """Return the matrix with all members' columns. y: (rows, columns of this member)."""
        return array_module(y).concatenate(
            self._swap({i: y for i in range(self.size)}, y.shape, "columns", name), axis=1)

    def add_columns(self, partial, name: str):
        """Return this member's columns of the sum of all members' ``partial``: ``gather_columns`` backwards."""
        leaving = self._columns(partial)
        return tree_sum(self._swap(leaving, leaving[self.me].shape, "columns", name))

    def own_rows(self, y, counts, name: str):
        """Return this member's rows with all members' columns: the output of the cut layers."""
        ends = _ends(counts)
        leaving = {i: y[ends[i]:ends[i + 1]] for i in range(self.size)}
        return array_module(y).concatenate(self._swap(leaving, leaving[self.me].shape, "out", name), axis=1)

    def own_columns(self, x, counts, name: str):
        """Return all members' rows with this member's columns: ``own_rows`` backwards."""
        leaving = self._columns(x)
        width = leaving[self.me].shape[1]
        return array_module(x).concatenate(self._swap(leaving, [(n, width) for n in counts], "out", name))

    def _columns(self, matrix) -> dict:
        xp, width = array_module(matrix), matrix.shape[1] // self.size
        return {i: xp.ascontiguousarray(matrix[:, i * width:(i + 1) * width]) for i in range(self.size)}

    def _swap(self, leaving: dict, shapes, phase, name) -> list:
        """Send leaving[i] to each member i; return a list of what all members sent here, this one included.

        shapes: of what each member sends, a list, or one shape for all.
        """
        mine = leaving[self.me]
        shapes = shapes if isinstance(shapes, list) else [shapes] * self.size
        arrived = [mine if i == self.me else array_module(mine).empty(shape, mine.dtype)
                   for i, shape in enumerate(shapes)]
        sends = [(rank, leaving[i], {name: leaving[i].size}) for i, rank in self.others]
        receives = [(rank, arrived[i], {name: arrived[i].size}) for i, rank in self.others]
        self.wait(self.comm.start(sends, receives, phase, KIND))
        return arrived

    def wait(self, coming):
        """Wait for the exchange. (On a GPU a wait for a member that has failed never ends.)"""
        self.comm.settle()
        coming.wait()


def _ends(counts) -> list[int]:
    """Return the first row of each member, and the end of the last one."""
    return list(accumulate(map(int, counts), initial=0))
