"""Sums of gradients: the microbatch tree, the arena, and exact sums, which do not depend on the order."""

from refimpl.gradients.accumulate import DenseTree, RowTree, ScaledTree
from refimpl.gradients.arena import TOUCHED, Arena, Layout
from refimpl.gradients.exact_sum import ExactSum
from refimpl.gradients.residuals import ElementTree, MessageTree
from refimpl.gradients.tree import Dealt, Node, TreeSum, cover, fold, leaves_of

__all__ = ["TOUCHED", "Arena", "Dealt", "DenseTree", "ElementTree", "ExactSum", "Layout", "MessageTree", "Node",
           "RowTree", "ScaledTree", "TreeSum", "cover", "fold", "leaves_of"]
