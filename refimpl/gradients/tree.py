"""The microbatch tree, which gives the order of all sums of gradients (design.md, I1). Equals plain/adding/tree.py.

Node (level, index) covers the existing leaves of [index * 2**level, (index + 1) * 2**level). Its value is left child +
right child. If a node has no right child, its value is that of its left child. Every sum of gradients in the system is
the value of a node, so any number of ranks gives the same bits.
"""

from typing import Any, Callable, Iterable, NamedTuple, Sequence


class Node(NamedTuple):
    """The sum of leaves [index << level, (index + 1) << level)."""

    level: int
    index: int

    @property
    def first_leaf(self) -> int:
        """The first microbatch whose gradient is in the sum."""
        return self.index << self.level

    @property
    def leaves(self) -> range:
        """The microbatches in the sum. The range may go beyond the last microbatch."""
        return range(self.first_leaf, self.index + 1 << self.level)

    @property
    def parent(self) -> "Node":
        """The node that adds this one and its sibling."""
        return Node(self.level + 1, self.index >> 1)

    def is_left_sibling_of(self, other: "Node") -> bool:
        """Return True if the two are the children of one node, ``self`` the left one."""
        return self.level == other.level and self.index + 1 == other.index and self.index % 2 == 0


class Dealt(int):
    """V, the number of microbatches, with the microbatches of each rank. After ranks have died these may be any.

    of_rank: the microbatches of each rank, rising.
    """

    def __new__(cls, of_rank):
        self = super().__new__(cls, sum(map(len, of_rank)))
        self.of_rank = tuple(map(tuple, of_rank))
        return self

    def __eq__(self, other):
        return self.of_rank == other.of_rank if isinstance(other, Dealt) else int(self) == other

    def __ne__(self, other):
        return not self == other

    __hash__ = int.__hash__


def leaves_of(rank: int, ranks: int, leaves: int) -> Sequence[int]:
    """Return the microbatches of a rank: consecutive and as even as possible, or those of a ``Dealt``. Local."""
    if isinstance(leaves, Dealt):
        return leaves.of_rank[rank]
    return range(rank * leaves // ranks, (rank + 1) * leaves // ranks)


def cover(leaves: Sequence[int]) -> list[Node]:
    """Return the fewest nodes that cover ``leaves``, from left to right. leaves: rising. Local."""
    if len(leaves) == 1:
        return [Node(0, leaves[0])]
    tree = TreeSum.of([(Node(0, leaf), None) for leaf in leaves], lambda left, right: None)
    return [node for node, _ in tree.parts]


class TreeSum:
    """It adds up values from left to right as they arrive. It forms each node as soon as it has both children.

    add(left, right) -> sum; it may work in place.  parts: (node, value) of the nodes not yet joined, left to right.
    After a rank's leaves these are the few nodes that cover them. Memory: about log2(V) values. Local.
    """

    def __init__(self, add: Callable[[Any, Any], Any]):
        self.add = add
        self.parts: list[tuple[Node, Any]] = []

    @classmethod
    def of(cls, parts: Iterable[tuple[Node, Any]], add: Callable[[Any, Any], Any]) -> "TreeSum":
        """Return the sum of nodes given in any order. Nodes are joined where the tree allows it."""
        tree = cls(add)
        for node, value in sorted(parts, key=lambda part: part[0].first_leaf):
            tree.push(node, value)
        return tree

    def push(self, node: Node, value):
        """Add the next node. Its first leaf must follow the last pushed leaf."""
        while self.parts and self.parts[-1][0].is_left_sibling_of(node):
            _, left = self.parts.pop()
            value, node = self.add(left, value), node.parent
        self.parts.append((node, value))

    def total(self):
        """Return the root's value, after all leaves have been pushed; None if there were none."""
        if not self.parts:
            return None
        *rest, (_, value) = self.parts
        for _, left in reversed(rest):  # a node without a right child has its left child's value
            value = self.add(left, value)
        return value


def fold(parts: Iterable[tuple[Node, Any]], add: Callable[[Any, Any], Any]):
    """Return the root's value from the nodes of all ranks, in any order; None if there is none. Local."""
    return TreeSum.of(parts, add).total()
