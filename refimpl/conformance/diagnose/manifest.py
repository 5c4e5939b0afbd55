"""Another rule of the manifest fits the numbers better than the one that it declares."""

from itertools import combinations

import numpy as np

from refimpl.conformance.case import Rows
from refimpl.conformance.diagnose.diagnosis import Diagnosis, explains, failing, names_in_words, with_changes
from refimpl.conformance.kinds import KINDS
from refimpl.conformance.rules.bounds import alike
from refimpl.conformance.semantics import CHOICES

FIELDS = {"aggregate": ("dense", "sparse", "duplicates"), "model": ("loss",),
          "update": ("untouched", "clip_norm", "clip_point", "window", "partial", "start", "dense", "sparse",
                     "duplicates")}

DIVISION = {
    "dense": {"sum": "a plain sum", "average": "division by N"},
    "sparse": {"sum": "a plain sum", "average": "division by N", "per-row-count": "division by push count",
               "per-occurrence": "division by the number of occurrences"},
}


def other_rule(evidence, verdict):
    """Try each single change of the manifest, and one rule for dense and sparse gradients alike."""
    fields = FIELDS[KINDS[evidence.case.kind].stage]
    for field, value in evidence.semantics.alternatives(*fields):
        if explains(evidence, with_changes(evidence, **{field: value})):
            return _found(evidence, {field: value})
    for value in DIVISION["dense"] if "dense" in fields else ():
        both = {"dense": value, "sparse": value}
        if explains(evidence, with_changes(evidence, **both)):
            return _found(evidence, both)
    return None


def two_other_rules(evidence, verdict):
    """Try two changes of the manifest at once."""
    changes = list(evidence.semantics.alternatives(*FIELDS[KINDS[evidence.case.kind].stage]))
    for (field, value), (other, second) in combinations(changes, 2):
        rules = {field: value, other: second}
        if len(rules) == 2 and explains(evidence, with_changes(evidence, **rules)):
            return _found(evidence, rules)
    return None


def _found(evidence, rules) -> Diagnosis:
    """Say which rules fit, instead of which, and what shows it."""
    words, names, declared = [], list(failing(evidence)), evidence.semantics
    for field, value in rules.items():
        if field in DIVISION:
            what = "rows" if field == "sparse" else "dense gradients"
            words.append(f"your {what} match {DIVISION[field][value]}, not {DIVISION[field][getattr(declared, field)]}")
        else:
            words.append(f"the numbers match {field} = {value} ({CHOICES[field][value]}), not the manifest's "
                         f"{getattr(declared, field)} ({CHOICES[field][getattr(declared, field)]})")
    blame = ": not averaged" if set(rules) <= set(DIVISION) and set(rules.values()) == {"sum"} else ""
    return Diagnosis(" and ".join(f"{f}={v}" for f, v in rules.items()), "; ".join(words),
                     f"{names_in_words(names)}: {_ratio(evidence, names)}{blame}")


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
