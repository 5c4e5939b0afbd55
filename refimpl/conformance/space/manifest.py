"""Deviations from the manifest: the implementation follows another rule than it declares."""

from refimpl.conformance.case import Task
from refimpl.conformance.semantics import CHOICES, Semantics
from refimpl.conformance.space.deviation import Deviation, anywhere


def has(*settings: str):
    """Return a function of a case: whether its task sets all of these settings. Local."""
    return lambda case: all(case.settings.get("task", {}).get(name, getattr(Task, name)) != getattr(Task, name)
                            for name in settings)


def if_task(setting: str, entries) -> list[Deviation]:
    """Return deviations that concern only cases whose task sets ``setting``, or the settings of the entry. Local.

    entries: (code, words, decision, change, settings...).
    """
    return [Deviation(code, words, {decision: change}, has(*(own or (setting,))))
            for code, words, decision, change, *own in entries]


CONCERNS = {"clip_norm": has("clip"), "clip_point": has("clip"), "window": has("window"), "partial": has("window"),
            **{name: lambda case, name=name: case.settings.get("task", {}).get("optimizer") == name
               for name in ("adam", "adagrad")},
            **dict.fromkeys(("sparse", "duplicates", "untouched"), lambda case: bool(case.shapes))}
"""Field -> whether it matters in a case. A field that is not listed matters in all cases."""


def deviations(semantics: Semantics, fields) -> list[Deviation]:
    """Return a deviation for each other value of a field, and for one rule of dense and row gradients. Local."""
    found = [_of({field: value}, semantics) for field in fields for value in CHOICES[field]
             if value != getattr(semantics, field)]
    for value in CHOICES["dense"]:
        rules = {field: value for field in ("dense", "sparse") if getattr(semantics, field) != value}
        if len(rules) == 2 and "dense" in fields:
            found.append(_of(rules, semantics))
    return found


def _of(rules: dict, semantics) -> Deviation:
    words = [f"your manifest says that {CHOICES[field][getattr(semantics, field)]}. Your numbers match another rule: "
             f"{CHOICES[field][value]}" for field, value in rules.items()]
    return Deviation(" and ".join(f"{f}={v}" for f, v in rules.items()), ". Also, ".join(words), {}, lambda case: any(
        CONCERNS.get(field, anywhere)(case) for field in rules), rules)
