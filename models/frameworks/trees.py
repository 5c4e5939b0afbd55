"""Trees of arrays, which a batch may hold: nested tuples, lists and mappings."""

from collections.abc import Mapping

import numpy as np


def mapped(tree, change):
    """Return a tree of tuples, lists and mappings with ``change`` applied to each leaf. Local.

    Any mapping, for example a BatchEncoding of transformers, becomes a dict.
    """
    if isinstance(tree, Mapping):
        return {key: mapped(value, change) for key, value in tree.items()}
    if isinstance(tree, (tuple, list)):
        parts = [mapped(value, change) for value in tree]
        return type(tree)(*parts) if hasattr(tree, "_fields") else type(tree)(parts)
    return change(tree)


def leaves(tree) -> list:
    """Return the leaves of a tree, in order. Local."""
    found: list = []
    mapped(tree, found.append)
    return found


def examples_in(batch) -> int:
    """Return the number of examples in a ``Batch``: weights that are not 0, or the length of axis 0. Local."""
    if batch.weights is not None:
        return int(np.count_nonzero(batch.weights))
    sized = [leaf for part in (batch.targets, batch.inputs) for leaf in leaves(part) if getattr(leaf, "ndim", 0)]
    return len(sized[0])
