"""Norms, clipping and merged rows of gradients, in float64."""

import math

import numpy as np

from refimpl.conformance.case import Case, Rows
from refimpl.conformance.semantics import Semantics


def merge_occurrences(gradient, divisor=1):
    """Return a gradient divided, the rows that share an id added in float64; ids rise. Local."""
    if not isinstance(gradient, Rows):
        return gradient / divisor
    unique, place = np.unique(gradient.ids, return_inverse=True)
    rows = np.zeros((len(unique), *gradient.rows.shape[1:]))
    with np.errstate(invalid="ignore"):
        np.add.at(rows, place, gradient.rows)
    return Rows(unique, rows / divisor)


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


def clip_scales(case: Case, semantics: Semantics, gradients) -> dict[str, float]:
    """Return name -> what its gradient is multiplied with: min(1, clip / norm), or 1. Local."""
    norm = norm_of(gradients, semantics)
    scale = min(1.0, case.settings["task"]["clip"] / norm) if norm else 1.0
    return {name: 1.0 if semantics.clip_norm == "dense" and isinstance(g, Rows) else scale
            for name, g in gradients.items()}
