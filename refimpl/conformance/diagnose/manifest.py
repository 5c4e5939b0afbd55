"""Another rule of the manifest fits the numbers better than the one that it declares."""

import numpy as np

from refimpl.conformance.case import Rows
from refimpl.conformance.diagnose.diagnosis import Diagnosis, explains, failing, names_in_words, with_changes
from refimpl.conformance.kinds import KINDS
from refimpl.conformance.rules.bounds import alike
from refimpl.conformance.semantics import CHOICES

FIELDS = {"aggregate": ("dense", "sparse", "duplicates"), "model": ("loss",),
          "update": ("untouched", "clip_norm", "clip_point", "window", "partial", "start", "dense", "sparse",
                     "duplicates")}

DIVISION = {"sum": "a plain sum", "average": "division by N", "per-row-count": "division by push count",
            "per-occurrence": "division by the number of occurrences"}
PHRASES = {"dense": DIVISION, "sparse": DIVISION}


def other_rule(evidence, verdict):
    """Try each single change of the manifest."""
    if evidence.wanted is None:
        return None
    for field, value in evidence.semantics.alternatives(*FIELDS[KINDS[evidence.case.kind].stage]):
        if explains(evidence, with_changes(evidence, **{field: value})):
            return _found(evidence, field, value)
    return None


def _found(evidence, field, value) -> Diagnosis:
    declared, names = getattr(evidence.semantics, field), list(failing(evidence))
    if field in PHRASES:
        what = "rows" if field == "sparse" else "dense gradients"
        words = f"your {what} match {PHRASES[field][value]}, not {PHRASES[field][declared]}"
    else:
        words = (f"the numbers match {field} = {value} ({CHOICES[field][value]}), not the manifest's {declared} "
                 f"({CHOICES[field][declared]})")
    blame = ": not averaged" if field in PHRASES and value == "sum" else ""
    return Diagnosis(f"{field}={value}", words, f"{names_in_words(names)}: {_ratio(evidence, names)}{blame}")


def _ratio(evidence, names) -> str:
    """Say the factor between found and expected, if there is one."""
    ratios = set()
    for step, observed in enumerate(evidence.observed):
        for name in names:
            for _, found in observed[name]:
                ratios |= ratios_of(found, evidence.wanted[step][name].value)
    if len(ratios) == 1:
        return f"every number is exactly {next(iter(ratios)):g} x ours"
    return "every number that differs agrees with that rule on every rank and step"


def ratios_of(found, wanted) -> set[float]:
    """Return the factors found / wanted of all elements, rounded to 6 digits; {nan} where ids differ. Local."""
    if isinstance(found, Rows):
        if not np.array_equal(found.ids, wanted.ids):
            return {float("nan")}
        found, wanted = found.rows, wanted.rows
    found, wanted = np.ravel(found).astype(np.float64), np.ravel(wanted)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(alike(found, wanted) & (wanted == 0), np.nan, found / wanted)
    return {float(f"{r:.6g}") for r in ratio[~np.isnan(ratio)]}
