"""Norms, clipping and merged rows of gradients, in float64."""

import math

import numpy as np

from refimpl.conformance.case import Rows
from refimpl.conformance.semantics import Semantics
from refimpl.plain.rows import aggregate_rows


def merge_occurrences(gradient, divisor=1):
    """Return a gradient divided, the rows that share an id added in float64; ids rise. Local."""
    if not isinstance(gradient, Rows):
        return gradient / divisor
    if (gradient.ids[1:] > gradient.ids[:-1]).all():
        return Rows(gradient.ids, gradient.rows.astype(np.float64) / divisor)
    with np.errstate(invalid="ignore"):
        return aggregate_rows(Rows, gradient.ids, gradient.rows.astype(np.float64) / divisor)


def merged(gradients, divisor=1) -> dict:
    """Return name -> gradient, rows that share an id added, all divided. Local."""
    return {name: merge_occurrences(g, divisor) for name, g in gradients.items()}


def placed(gradient, p, everywhere: bool) -> tuple:
    """Return (places, array) of a parameter's gradient, each id once. everywhere: all other rows have gradient 0."""
    if not isinstance(gradient, Rows):
        return ..., gradient
    if not everywhere:
        return gradient.ids, gradient.rows
    whole = np.zeros_like(p)
    whole[gradient.ids] = gradient.rows
    return ..., whole


def norm_of(gradients, semantics: Semantics) -> float:
    """Return the norm of name -> array or Rows, of what the manifest's clip_norm says. Local."""
    squares = []
    for g in gradients.values():
        if isinstance(g, Rows):
            if semantics.clip_norm.startswith("dense"):
                continue
            g = g.rows if semantics.clip_norm == "occurrences" else merge_occurrences(g).rows
        squares += (np.asarray(g, np.float64) ** 2).ravel().tolist()
    return math.sqrt(math.fsum(squares))


def clip_scales(clip: float | None, gradients, semantics: Semantics, statistics=()) -> dict[str, float]:
    """Return name -> what its gradient is multiplied with: min(1, clip / norm), or 1. Local.

    clip: the largest norm allowed; None: any.  statistics: names that neither count nor are clipped.
    """
    counted = {name: g for name, g in gradients.items() if name not in statistics}
    norm = norm_of(counted, semantics) if clip is not None else 0.0
    scale = min(1.0, clip / norm) if norm else 1.0
    free = {n for n, g in counted.items() if isinstance(g, Rows)} if semantics.clip_norm == "dense" else set()
    return {name: scale if name in counted.keys() - free else 1.0 for name in gradients}
