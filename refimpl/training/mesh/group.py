"""Equals plain/model_parallel/groups.py: the messages between the K members of a group, for the layers that are cut.

    forward      gather_rows ─▶ layer ─▶ gather_columns ─▶ layer ─▶ own_rows
    backward     add_rows    ◀─ layer ◀─ add_columns    ◀─ layer ◀─ own_columns

The examples of a round lie in K matrices, those of one member in each; columns are divided into K equal parts. Each
method begins an exchange, most for one matrix, and ``Group.wait`` returns its result: so a matrix travels while the
next one is computed. Sums are added in the order of the tree over column blocks. Every message is counted as
``activations`` of the named layer.
"""

from functools import partial
from typing import Any, Callable, NamedTuple

from kernels.arrays import array_module
from models.fully_connected import tree_sum
from refimpl.plan.mesh import Mesh

KIND = "activations"


class Coming(NamedTuple):
    """An exchange under way. arrived: what all members send here, none if this rank only sends.  take(arrived): its
    result."""

    messages: Any
    arrived: list
    take: Callable


class Group:
    """The members of this rank's group. The constructor is local; every method is collective over the group.

    comm: of all ranks.  Raises SilentPeer, Aborted as ``comm.exchange``.
    """

    def __init__(self, comm, mesh: Mesh):
        self.comm, self.members, self.size = comm, tuple(mesh.group(comm.rank)), mesh.model
        self.me = mesh.member(comm.rank)
        # not all members send to the same one first
        self.order = [*range(self.me, self.size), *range(self.me)]
        self.others = [(i, self.members[i]) for i in self.order[1:]]

    def gather_rows(self, x, counts, name: str) -> Coming:
        """Begin to gather the list of all members' rows. x: (counts[me], d), contiguous.  counts: of each member."""
        return self._start(dict.fromkeys(self.order, x), [(n, x.shape[1]) for n in counts], "rows", name)

    def add_rows(self, partial_sum, member: int, name: str) -> Coming:
        """Begin to add all members' partial sums for the rows of ``member``: ``gather_rows`` backwards."""
        return self._to_one(partial_sum, member, "rows", name, tree_sum)

    def gather_columns(self, y, name: str) -> Coming:
        """Begin to gather the matrix with all members' columns. y: (rows, columns of this member)."""
        shapes = [y.shape] * self.size
        return self._start(dict.fromkeys(self.order, y), shapes, "columns", name, _side_by_side(y))

    def add_columns(self, partial_sum, name: str) -> Coming:
        """Begin to add this member's columns of all members' partial sums: ``gather_columns`` backwards."""
        leaving = self._columns(partial_sum)
        return self._start(leaving, [leaving[self.me].shape] * self.size, "columns", name, tree_sum)

    def own_rows(self, y, member: int, name: str) -> Coming:
        """Begin to gather all columns of the rows of ``member``: the output of the cut layers."""
        return self._to_one(y, member, "out", name, _side_by_side(y))

    def own_columns(self, x, counts, name: str) -> Coming:
        """Begin to gather the list of all members' rows with this member's columns: ``own_rows`` backwards."""
        leaving = self._columns(x)
        return self._start(leaving, [(n, leaving[self.me].shape[1]) for n in counts], "out", name)

    def wait(self, coming: Coming):
        """Return the result of an exchange. (On a GPU a wait for a member that has failed never ends.)"""
        self.comm.settle()
        coming.messages.wait()
        return coming.take(coming.arrived) if coming.arrived else None

    def _columns(self, matrix) -> dict:
        xp, width = array_module(matrix), matrix.shape[1] // self.size
        return {i: xp.ascontiguousarray(matrix[:, i * width:(i + 1) * width]) for i in self.order}

    def _to_one(self, array, member, phase, name, take) -> Coming:
        return self._start({member: array}, [array.shape] * self.size if member == self.me else [], phase, name, take)

    def _start(self, leaving: dict, shapes, phase, name, take=list) -> Coming:
        """Begin to send leaving[i] to each member i. shapes: of what each member sends here; none if nothing comes."""
        arrived = []
        for i, shape in enumerate(shapes):
            mine = leaving[self.me]
            arrived.append(mine if i == self.me else array_module(mine).empty(shape, mine.dtype))
        sends = [(self.members[i], array, {name: array.size}) for i, array in leaving.items() if i != self.me]
        receives = [(self.members[i], box, {name: box.size}) for i, box in enumerate(arrived) if i != self.me]
        return Coming(self.comm.start(sends, receives, phase, KIND), arrived, take)


def _side_by_side(like):
    return partial(array_module(like).concatenate, axis=1)
