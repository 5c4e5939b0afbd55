"""Row gradients: what it means to sum gradients that touch few rows of a large variable."""

from kernels.rows.gradient import RowGradient
from kernels.rows import definition


def aggregate_rows(ids, rows) -> RowGradient:
    """Sum the rows that share an id, in order of occurrence (see ``definition.aggregate_rows``). Local."""
    return definition.aggregate_rows(ids, rows)


def merge_rows(left: RowGradient, right: RowGradient) -> RowGradient:
    """Add two row gradients: ``left + right`` where both have the row (see ``definition.merge_rows``). Local."""
    return definition.merge_rows(left, right)


def take_rows(table, ids):
    """Return ``table[ids]`` as a new array. Local."""
    return definition.take_rows(table, ids)


__all__ = ["RowGradient", "aggregate_rows", "merge_rows", "take_rows"]
