"""Another rule of the manifest fits the numbers better than the one that it declares."""

from itertools import combinations

from refimpl.conformance.diagnose.diagnosis import Diagnosis, explains, factor_of, failing, names_in_words, with_changes
from refimpl.conformance.kinds import KINDS
from refimpl.conformance.semantics import CHOICES

FIELDS = {"aggregate": ("dense", "sparse", "duplicates"), "model": ("loss",),
          "update": ("untouched", "clip_norm", "clip_point", "window", "partial", "start", "dense", "sparse",
                     "duplicates")}
"""Stage -> what of the manifest its numbers depend on. An owner's depend on nothing there."""

DIVISION = {"dense": {"sum": "a plain sum", "average": "division by N"},
            "sparse": {"sum": "a plain sum", "average": "division by N", "per-row-count": "division by push count",
                       "per-occurrence": "division by the number of occurrences"}}


def other_rule(evidence, verdict):
    """Try each single change of the manifest, and one rule for dense and sparse gradients alike."""
    fields = FIELDS.get(KINDS[evidence.case.kind].stage)
    if not fields:
        return None
    changes = [{field: value} for field, value in evidence.semantics.alternatives(*fields)]
    changes += [{"dense": value, "sparse": value} for value in DIVISION["dense"] if "dense" in fields]
    return _first_that_fits(evidence, changes)


def two_other_rules(evidence, verdict):
    """Try two changes of the manifest at once."""
    fields = FIELDS.get(KINDS[evidence.case.kind].stage)
    if not fields:
        return None
    changes = evidence.semantics.alternatives(*fields)
    return _first_that_fits(evidence, (dict(pair) for pair in combinations(changes, 2) if len(dict(pair)) == 2))


def _first_that_fits(evidence, changes) -> Diagnosis | None:
    """Return the diagnosis of the first change that explains the numbers: which rules fit, which are declared."""
    rules = next((rules for rules in changes if explains(evidence, with_changes(evidence, **rules))), None)
    if rules is None:
        return None
    words, names, declared = [], failing(evidence), evidence.semantics
    for field, value in rules.items():
        if field in DIVISION:
            what = "rows" if field == "sparse" else "dense gradients"
            words.append(f"your {what} match {DIVISION[field][value]}, not {DIVISION[field][getattr(declared, field)]}")
        else:
            words.append(f"the numbers match {field} = {value} ({CHOICES[field][value]}), not the manifest's "
                         f"{getattr(declared, field)} ({CHOICES[field][getattr(declared, field)]})")
    blame = ": not averaged" if set(rules) <= set(DIVISION) and set(rules.values()) == {"sum"} else ""
    factor = factor_of([(found, wanted[name]) for observed, wanted in zip(evidence.observed, evidence.wanted)
                        for name in names for _, found in observed[name]])
    fits = (f"every number is exactly {factor:g} x ours" if factor is not None else
            "every number that differs agrees with that rule on every rank and step")
    return Diagnosis(" and ".join(f"{f}={v}" for f, v in rules.items()), "; ".join(words),
                     f"{names_in_words(names)}: {fits}{blame}")
