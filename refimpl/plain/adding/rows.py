"""Sums of row gradients.

A merged row gradient is an object with ``ids`` (k,), sorted and unique, and ``rows`` (k, d), one row for each id.
Here the sums are spelled out for the conformance suite. Trainings use the same sums of ``kernels.rows.definition``.
"""

from typing import NamedTuple

import numpy as np


class Rows(NamedTuple):
    """A row gradient as a backward pass makes it. ids: (n,) int64, any order, repeats allowed.  rows: (n, d)."""

    ids: np.ndarray
    rows: np.ndarray


def aggregate_rows(kind, ids, rows):
    """Return a row gradient of the class ``kind``, with each id once. Rows of the same id are added in their order."""
    unique, first, place = np.unique(ids, return_index=True, return_inverse=True)
    total = rows[first]  # begin with the first row of each id, then add the others
    repeats = np.ones(len(ids), bool)
    repeats[first] = False
    np.add.at(total, place[repeats], rows[repeats])  # total[place] += rows, also where a place comes twice
    return kind(unique, total)


def merge_rows(left, right):
    """Return the sum of two row gradients. A row that only one of them has is not changed."""
    return aggregate_rows(type(left), np.concatenate([left.ids, right.ids]), np.concatenate([left.rows, right.rows]))


def merge_occurrences(gradient, divisor=1):
    """Return a gradient divided by ``divisor``. If it is ``Rows``, rows with the same id are added in float64."""
    if not isinstance(gradient, Rows):  # an array: the gradient of a dense variable
        return gradient / divisor
    rows = gradient.rows.astype(np.float64) / divisor
    if (gradient.ids[1:] > gradient.ids[:-1]).all():  # the ids are sorted, and none comes twice
        return Rows(gradient.ids, rows)
    with np.errstate(invalid="ignore"):  # infinity - infinity is NaN, without a warning
        return aggregate_rows(Rows, gradient.ids, rows)


def last_of(ids, rows):
    """Return for each id its last row, as Rows with sorted ids. The earlier rows of an id are left out."""
    unique, place = np.unique(ids[::-1], return_index=True)
    return Rows(unique, rows[::-1][place])
