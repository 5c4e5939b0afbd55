"""Row gradients added up: ids that rise, and a row for each. They may be of any class that has ``ids`` and ``rows``."""

import numpy as np


def aggregate_rows(kind, ids, rows):
    """Return kind(ids, rows) in which each id is there once: rows that share one are added in order of occurrence."""
    unique, first, place = np.unique(ids, return_index=True, return_inverse=True)
    total, repeats = rows[first], np.ones(len(ids), bool)
    repeats[first] = False
    np.add.at(total, place[repeats], rows[repeats])
    return kind(unique, total)


def merge_rows(left, right):
    """Return the sum of two row gradients; a row that only one of them has is taken as it is."""
    return aggregate_rows(type(left), np.concatenate([left.ids, right.ids]), np.concatenate([left.rows, right.rows]))
