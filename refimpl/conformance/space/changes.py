"""Changes of gradients, by element or by row: of a rank's contribution, or of the sum that it gets."""

import numpy as np

from refimpl.conformance.case import Rows, with_numbers


def of_numbers(change):
    """Return the change of all numbers: change(array). Local."""
    return lambda part, variable: with_numbers(part, change)


def of_arrays(change):
    """Return the change of dense gradients alone: change(array). Local."""
    return lambda part, variable: part if isinstance(part, Rows) else change(part)


def of_rows(change):
    """Return the change of row gradients that have a row: change(ids, rows, variable) -> (ids, rows). Local."""
    return lambda part, variable: (Rows(*change(part.ids, part.rows, variable))
                                   if isinstance(part, Rows) and len(part.ids) else part)


def some_rows(kept):
    """Return the change that leaves some rows: kept(ids, variable) -> which. Local."""
    return of_rows(lambda ids, rows, v: (ids[kept(ids, v)], rows[kept(ids, v)]))


CHANGES = (
    ("denormals-flushed", "denormal numbers are flushed to zero", lambda part, v: with_numbers(
        part, lambda a: np.where(np.abs(a) < np.finfo(v.dtype).tiny, 0, a))),
    ("negated", "{} changes its sign", of_numbers(np.negative)),
    ("sign-lost", "{} loses its sign", of_numbers(np.abs)),
    ("negative-lost", "negative numbers are lost", of_numbers(lambda a: np.maximum(a, 0))),
    ("squared", "{} is squared", of_numbers(lambda a: a.astype(np.float64) * a)),
    ("fraction-lost", "{} loses its fraction: it passes through integers", of_numbers(np.trunc)),
    ("small-lost", "numbers below 1e-5 are lost", of_numbers(lambda a: np.where(np.abs(a) < 1e-5, 0, a))),
    ("clamped", "{} is clamped to [-1, 1]", of_numbers(lambda a: np.clip(a, -1, 1))),
    ("nan-to-zero", "what is not finite becomes 0", of_numbers(lambda a: np.where(np.isfinite(a), a, 0))),
    ("columns-reversed", "the elements of the last axis come in reverse",
     of_numbers(lambda a: np.flip(a, -1) if a.ndim else a)),
    ("columns-rotated", "the elements of the last axis are one place too far",
     of_numbers(lambda a: np.roll(a, 1, -1) if a.ndim else a)),
    ("columns-rotated", "the elements of the last axis are one place too early",
     of_numbers(lambda a: np.roll(a, -1, -1) if a.ndim else a)),
    ("order-of-axes", "the elements of {} are in Fortran's order, not in C's",
     of_arrays(lambda a: np.reshape(np.ravel(a, "F"), a.shape))),
    ("rows-reversed", "rows come in reverse under their row numbers", of_rows(lambda ids, a, v: (ids, a[::-1]))),
    ("row-lost", "the last row of {} is lost", some_rows(lambda ids, v: slice(-1))),
    ("row-lost", "the first row of {} is lost", some_rows(lambda ids, v: slice(1, None))),
    ("row-zero-lost", "row 0 of {} is lost: it is taken for padding", some_rows(lambda ids, v: ids != 0)),
)
"""(code, words, change(part, variable)); {} stands for what is changed. The commonest come first."""
