"""Touch sets whose bytes the closed formulas know: every worker touches as many rows of every owner's block."""

from fractions import Fraction
from itertools import product

import numpy as np

from refimpl.plain.strategies.cost_table import Setting, Sparse

SETTINGS = [Setting(m, g, local) for m, g, local in product((1, 2, 4), (1, 2, 4), (True, False))]
A, Q = 3, 24  # every worker touches A of each Q rows
ROW = 20  # bytes a row


def alphas(setting):
    """The workers of a machine touch overlapping rows: A of the first, one more of each further one."""
    return Sparse(setting.ranks * Q, ROW, Fraction(A, Q), Fraction(A + setting.workers - 1, Q))


def touched(setting, rank):
    """A worker's rows: the same number of each block of Q, a block for each rank."""
    return np.array(sorted(block * Q + (rank + j) % Q for block in range(setting.ranks) for j in range(A)), np.int64)
