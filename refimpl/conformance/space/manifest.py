"""Deviations from the manifest: another rule of its own vocabulary than the one that it declares."""

from refimpl.conformance.semantics import CHOICES, Semantics
from refimpl.conformance.space.deviation import Deviation

DIVISION = {"dense": {"sum": "a plain sum", "average": "division by N"},
            "sparse": {"sum": "a plain sum", "average": "division by N", "per-row-count": "division by push count",
                       "per-occurrence": "division by the number of occurrences"}}


def deviations(semantics: Semantics, fields) -> list[Deviation]:
    """Return each single change of a manifest's fields, and one rule for dense and row gradients alike. Local."""
    found = [_of({field: value}, semantics) for field, value in semantics.alternatives(*fields)] if fields else []
    for value in DIVISION["dense"]:
        rules = {field: value for field in ("dense", "sparse") if getattr(semantics, field) != value}
        if len(rules) == 2 and "dense" in fields:
            found.append(_of(rules, semantics))
    return found


def _of(rules: dict, semantics) -> Deviation:
    words = []
    for field, value in rules.items():
        if field in DIVISION:
            what = "rows" if field == "sparse" else "dense gradients"
            declared = DIVISION[field][getattr(semantics, field)]
            words.append(f"your {what} match {DIVISION[field][value]}, not {declared}")
        else:
            words.append(f"the numbers match {field} = {value} ({CHOICES[field][value]}), not the manifest's "
                         f"{getattr(semantics, field)} ({CHOICES[field][getattr(semantics, field)]})")
    return Deviation(" and ".join(f"{f}={v}" for f, v in rules.items()), "; ".join(words), rules=rules)
