"""Kernel functions of sparse samples in Numba: rising columns, and values. Same bits as ``definition`` for dense rows.

A feature that is 0 in both samples would add +0 to a sum, which changes no bit.
"""

from kernels.compiled import compiled, inlined
from kernels.svm.fast import of_sum


@inlined
def _square_distance(columns, values, others, theirs, start, stop):
    """Return |x - z|², added in the order of the features. z: ``others`` and ``theirs`` from start to stop."""
    total, a, b = 0.0, 0, start
    while a < len(columns) and b < stop:
        column, other = columns[a], others[b]
        z, x = theirs[b], values[a]
        difference = (z if other <= column else 0.0) - (x if column <= other else 0.0)
        total += difference * difference
        a += column <= other
        b += other <= column
    for k in range(a, len(columns)):
        total += values[k] * values[k]
    for k in range(b, stop):
        total += theirs[k] * theirs[k]
    return total


@inlined
def _product(columns, values, others, theirs):
    total, a, b = 0.0, 0, 0
    while a < len(columns) and b < len(others):
        column, other = columns[a], others[b]
        if column == other:
            total += theirs[b] * values[a]
        a += column <= other
        b += other <= column
    return total


@compiled
def kernel_value(kind, gamma, degree, constant, columns, values, others, theirs):
    """Return K(x, z) of two samples: x is columns and values, z is others and theirs."""
    if kind == 0:
        total = _square_distance(columns, values, others, theirs, 0, len(others))
    else:
        total = _product(columns, values, others, theirs)
    return of_sum(kind, gamma, degree, constant, total)


@compiled
def fill_kernel_row(kind, gamma, degree, constant, columns, values, spread, others, theirs, starts, stops, first, last,
                    row):
    """Write K(x, sample i) to row[i] for first <= i < last. Sample i: others and theirs from starts[i] to stops[i].

    spread: (width,) zeros, for the use of this function.
    """
    for k in range(len(columns)):
        spread[columns[k]] = values[k]
    for i in range(first, last):
        total = 0.0
        if kind == 0:
            total = _square_distance(columns, values, others, theirs, starts[i], stops[i])
        else:
            for k in range(starts[i], stops[i]):
                total += theirs[k] * spread[others[k]]
        row[i] = of_sum(kind, gamma, degree, constant, total)
    for k in range(len(columns)):
        spread[columns[k]] = 0.0
