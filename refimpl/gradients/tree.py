"""The microbatch tree: one fixed way to add up V gradients, whoever holds which (DESIGN, I1).

The V microbatch gradients are the leaves of a binary tree. Node (level, index) covers the leaves
[index * 2**level, (index + 1) * 2**level) that exist; its value is left child + right child, and a node without a
right child is its left child. V = 6, drawn with its leaves 0..5:

            +
          /   \\
        +       +
       / \\     / \\
      +   +   4   5
     /|   |\\
    0 1   2 3

IEEE addition is commutative bit for bit, but not associative: so whoever forms a sum of gradients must form a node
of this tree, and then all sums in the system are the same numbers on any number of ranks.
"""

from typing import Any, Callable, NamedTuple


class Node(NamedTuple):
    """The sum of leaves [index << level, (index + 1) << level)."""

    level: int
    index: int

    @property
    def first_leaf(self) -> int:
        """The first microbatch whose gradient is in the sum."""
        return self.index << self.level

    @property
    def parent(self) -> "Node":
        """The node that adds this one and its sibling."""
        return Node(self.level + 1, self.index >> 1)

    def is_left_sibling_of(self, other: "Node") -> bool:
        """Return True if the two are the children of one node, ``self`` the left one."""
        return self.level == other.level and self.index + 1 == other.index and self.index % 2 == 0


def leaves_of(rank: int, ranks: int, leaves: int) -> range:
    """Return the microbatches of a rank: consecutive, and as even as can be. Local."""
    return range(rank * leaves // ranks, (rank + 1) * leaves // ranks)


def cover(leaves: range) -> list[Node]:
    """Return the fewest nodes whose leaves are ``leaves``, from left to right. Local."""
    tree = TreeSum(lambda left, right: None)
    for leaf in leaves:
        tree.push(Node(0, leaf), None)
    return [node for node, _ in tree.parts]


class TreeSum:
    """Adds values as they come, left to right, forming each node as soon as both its children are there.

    add(left, right) -> sum; it may work in place. ``parts`` holds what is not yet joined: (node, value), left to
    right. After a rank's leaves these are the few nodes that cover them; after all leaves ``total`` is the root.
    Memory: about log2(V) values. Local.
    """

    def __init__(self, add: Callable[[Any, Any], Any]):
        self.add = add
        self.parts: list[tuple[Node, Any]] = []

    def push(self, node: Node, value):
        """Add the next node: its first leaf follows the last leaf pushed."""
        while self.parts and self.parts[-1][0].is_left_sibling_of(node):
            _, left = self.parts.pop()
            value, node = self.add(left, value), node.parent
        self.parts.append((node, value))

    def total(self):
        """Return the root's value, all leaves having been pushed; None if there was none."""
        if not self.parts:
            return None
        *rest, (_, value) = self.parts
        for _, left in reversed(rest):  # a node without a right child is its left child
            value = self.add(left, value)
        return value


def fold(parts: list[tuple[Node, Any]], add: Callable[[Any, Any], Any]):
    """Return the root's value from the nodes of all ranks, in leaf order. Local."""
    tree = TreeSum(add)
    for node, value in parts:
        tree.push(node, value)
    return tree.total()
