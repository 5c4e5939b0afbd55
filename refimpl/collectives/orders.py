"""Orders of addition: the tree in which a schedule adds up a sum, and the results of all other trees.

A sum's tree is plain data: a leaf's number, or a pair (left, right). In floating point left + right has the same bits
as right + left, but (a + b) + c has other bits than a + (b + c). So n numbers have (2n - 3)!! = 1 · 3 · 5 ··· (2n - 3)
sums that may differ: one for each binary tree over n leaves whose children have no order.
"""

import math
from typing import NamedTuple

import numpy as np

from refimpl.collectives.local import run_local
from refimpl.collectives.schedule import Schedule
from refimpl.gradients import Node, fold

Tree = int | tuple
MOST_NUMBERS = 10
"""The most numbers for ``all_sums``: 10 have 34,459,425 orders, computed from 57,002 pairs of subsets."""


class _Term:
    """An element of an array of objects: a sum that stores how it was formed."""

    def __init__(self, tree: Tree):
        self.tree = tree

    def __add__(self, other):
        return _Term((self.tree, other.tree))


def tree_of(leaves: range) -> Tree:
    """Return the order in which the microbatch tree adds ``leaves``, one of its nodes or all leaves. Local."""
    return fold([(Node(0, leaf), leaf) for leaf in leaves], lambda left, right: (left, right))


def sum_trees(schedule: Schedule) -> list[Tree]:
    """Return, for each chunk, the tree of additions of an allreduce; leaves are microbatches. Local.

    Every rank adds up its own microbatches by the microbatch tree. Raises ValueError for a schedule of another kind.
    """
    if schedule.kind != "allreduce":
        raise ValueError(f"sum_trees wants an allreduce, {schedule.name} is a schedule of kind {schedule.kind}")
    slots = [[_symbols(schedule.chunks, node) for node in nodes] or [_symbols(schedule.chunks, None)]
             for nodes in schedule.inputs]
    return [term.tree for term in run_local(schedule, slots)[0]]


def _symbols(chunks, node):
    """Return an array with a symbol for each chunk: the sum of a node's leaves, formed by the tree."""
    array = np.empty(chunks, object)
    array[:] = [_Term(None if node is None else _whole(node))] * chunks
    return array


def _whole(node: Node) -> Tree:
    if node.level == 0:
        return node.index
    below = node.level - 1
    return _whole(Node(below, 2 * node.index)), _whole(Node(below, 2 * node.index + 1))


def add_in_order(tree: Tree, values):
    """Return the sum of ``values`` in the order of ``tree``; leaf i is values[i]. Local.

    values: numbers or arrays of one dtype. Each addition is rounded to it.
    """
    if isinstance(tree, tuple):
        left, right = (add_in_order(part, values) for part in tree)
        return left + right
    return values[tree]


class Addition(NamedTuple):
    """One addition of a sum. left, right: the terms.  exact: their sum, as float64.  rounded: the result."""

    left: float
    right: float
    exact: float
    rounded: float


def additions(tree: Tree, values) -> list[Addition]:
    """Return the additions of a sum in their order; the last one gives the sum. Local.

    values: (n,) of a dtype whose sums of two numbers are exact in float64: float16, and mostly float32.
    """
    values, done = np.asarray(values), []

    def add(part):
        if not isinstance(part, tuple):
            return values[part]
        left, right = map(add, part)
        done.append(Addition(float(left), float(right), float(left) + float(right), float(left + right)))
        return left + right

    add(tree)
    return done


def tree_text(tree: Tree) -> str:
    """Return a tree as text: "((0 + 1) + 2) + 3". Local."""
    if not isinstance(tree, tuple):
        return str(tree)
    return " + ".join(f"({tree_text(part)})" if isinstance(part, tuple) else str(part) for part in tree)


def orders(numbers: int) -> int:
    """Return the number of binary trees over n numbers: (2n - 3)!!. Local."""
    return math.prod(range(1, 2 * numbers - 2, 2))


def all_sums(values) -> dict[float, int]:
    """Return (all sums that some order of addition gives, rising; the number of orders of each). Local.

    values: (n,) floating-point, n up to 10; each addition is rounded to their dtype. Counts add up to ``orders(n)``.
    The sums of a subset are those of a part plus those of the rest. Raises ValueError for more numbers.
    """
    values = np.asarray(values)
    if values.ndim != 1 or not 1 <= len(values) <= MOST_NUMBERS or values.dtype.kind != "f":
        raise ValueError(f"all_sums tries every order of 1 to {MOST_NUMBERS} floating-point numbers, "
                         f"not of {values.dtype} {values.shape}")
    found = {1 << i: (values[i:i + 1], np.ones(1, np.int64)) for i in range(len(values))}
    for subset in range(1, 1 << len(values)):
        if subset & (subset - 1):
            found[subset] = _sums_of(subset, found)
    return dict(zip(*(part.tolist() for part in found[(1 << len(values)) - 1])))


def _sums_of(subset: int, found):
    """Return (sums, counts) of a subset from those of its parts. found: subset as bits -> (sums, counts)."""
    first, sums, counts = subset & -subset, [], []
    part = subset
    while part := (part - 1) & subset:
        if part & first:  # each pair of parts once: the one that holds the first number, and the rest
            (left, lefts), (right, rights) = found[part], found[subset ^ part]
            sums.append(np.add.outer(left, right).ravel())
            counts.append(np.multiply.outer(lefts, rights).ravel())
    different, place = np.unique(np.concatenate(sums), return_inverse=True)
    total = np.zeros(len(different), np.int64)
    np.add.at(total, place, np.concatenate(counts))
    return different, total
