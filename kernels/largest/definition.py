"""Plain array code for the places of the largest elements: the oracle. Never optimised."""

import numpy as np


def largest(values, count):
    """Return the places of the ``count`` largest |values|, among equal ones the first: sorted int64."""
    return np.sort(np.argsort(-abs(values), kind="stable")[:count])
