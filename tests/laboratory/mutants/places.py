"""Where a mistake in the specification's code acts, and whether a report puts it there.

The truth is taken from the mutant's code. ``PLACES`` says what a method is for. Which optimizers run a method of
theirs, and whether a line is run for rows alone or for arrays alone, is read from the code.
"""

import ast
import re
from dataclasses import dataclass

from refimpl.conformance.cases import case_named
from refimpl.conformance.diagnose.features import features
from refimpl.plain.updating.optimizers_elsewhere import EVERY

PLACES = {
    "norm_of scale clip_factor clipped aggregated": ("clip", "both"),  # a wrong norm moves all variables
    "factor": ("clip", "unknown"), "scaled": ("clip", "branch"),
    "micro_steps": ("window", "both"), "accumulated": ("window loss-scale", "both"),
    "added": ("window loss-scale clip", "branch"), "save load": ("resume", "both"), "first_values": ("starts", "both"),
    "mean": ("", "dense"), "merge leaf divisors placed": ("", "rows"), "apart": ("clip", "branch"),
}
"""Methods -> (features, one of which a case has that shows a mistake; of which variables it is).

Any other method: any case, both kinds of variable. branch: as the line.  unknown: it depends on the change."""
SAID = {"clip": "gradients are clipped", "window": "micro-steps are accumulated", "resume": "after resuming",
        "starts": "ranks start from other values", "loss-scale": "the loss is scaled"}
"""Feature -> how a report says that something is wrong in cases with this feature alone."""
OF_RULES = {"sparse": "rows", "duplicates": "rows", "untouched": "rows", "dense": "dense"}
"""Field of the manifest that a diagnosis names -> the variables that it is about."""


@dataclass(frozen=True)
class Truth:
    """Where a mistake acts. optimizers, features: {}: any.  variables: rows, dense, both or unknown."""

    optimizers: frozenset
    features: frozenset
    variables: str

    def shows(self, case) -> bool:
        """Return whether a case can show the mistake."""
        kinds = {"rows" if v.sparse else "dense" for v in case.variables}
        return ((not self.optimizers or case.settings["task"]["optimizer"] in self.optimizers)
                and (not self.features or bool(self.features & features(case).keys()))
                and (self.variables not in ("rows", "dense") or self.variables in kinds))


def truth_of(site, tree, node) -> Truth:
    """Return where the mistake of a site acts. node: of ``tree``, the one that is changed. Local."""
    if site.file.startswith(("sgd", "optimizers")):
        owner = next(c.name for c in ast.walk(tree) if isinstance(c, ast.ClassDef) and node in ast.walk(c))
        names = {name for name, kind in EVERY.items() if runs(kind, owner, site.method)}
        return Truth(frozenset(names if names != EVERY.keys() else ()), frozenset(), "both")
    told, variables = next((place for methods, place in PLACES.items() if site.method in methods.split()), ("", "both"))
    if variables == "branch":
        method = next(f for f in ast.walk(tree) if isinstance(f, ast.FunctionDef) and node in ast.walk(f))
        variables = branch_of(method.body, node) or "both"
    return Truth(frozenset(), frozenset(told.split()), variables)


def runs(kind: type, owner: str, method: str) -> bool:
    """Return whether an optimizer runs the method of a class: its own, or one that this calls by ``super``. Local."""
    found = [c for c in kind.__mro__ if method in vars(c)]
    on = [c.__name__ for c in found[:2 if found and "super" in vars(found[0])[method].__code__.co_names else 1]]
    return owner in on


def branch_of(body, node) -> str | None:
    """Return whether a node is run for rows or for arrays alone; None: for both, or it decides. Local."""
    for number, statement in enumerate(body):
        for part in ast.walk(statement):
            if isinstance(part, (ast.If, ast.IfExp)) and "isinstance" in ast.unparse(part.test):
                ways = ("dense", "rows") if ast.unparse(part.test).startswith("not ") else ("rows", "dense")
                after = body[number + 1:] if isinstance(part, ast.If) and not part.orelse else part.orelse
                for way, those in zip(ways, (part.body, after)):
                    if any(node in ast.walk(one) for one in (those if isinstance(those, list) else [those])):
                        return way
    return None


def placed(truth: Truth, diagnosis, cases, ranks: int, named: bool) -> bool:
    """Return whether a sentence puts a mistake where it acts. named: whether it names the right decision. Local.

    It must restrict the mistake to the variables, optimizers and kinds of case that the truth has, and to no others;
    and to no ranks and steps, as no line of the specification is for some of them alone.
    """
    cases, words = [case_named(name, ranks) for name in cases], diagnosis.words
    if not all(map(truth.shows, cases)) or re.search(r"on rank|(from|in) (step|the \w+ step)", words):
        return False
    kinds = {v.name: "rows" if v.sparse else "dense" for case in cases for v in case.variables}
    wanted = {*kinds.values()} if truth.variables == "both" else {truth.variables}
    if truth.variables != "unknown" and kinds_said(diagnosis, kinds) not in (None, wanted):
        return False
    alone = {name for name in EVERY if re.search(rf"with .*\b{name}\b.* alone", words)}
    said = {feature for feature, text in SAID.items() if f"{text} alone" in words}
    if alone - truth.optimizers or said - truth.features:
        return False
    return named or bool(alone or not truth.optimizers) and bool(said or not truth.features)


def kinds_said(diagnosis, kinds) -> set | None:
    """Return the kinds of variable that a sentence is about; None: it does not say. kinds: name -> kind. Local."""
    rule = OF_RULES.get(diagnosis.code.partition("=")[0])
    if rule and " and " not in diagnosis.code:
        return {rule}
    for kind, words in (("rows", ", of row gradients alone"), ("dense", ", of dense gradients alone")):
        if words in diagnosis.words:
            return {kind}
    text = diagnosis.words.partition(":")[2] if diagnosis.vague else diagnosis.evidence.partition(":")[0]
    return {kind for name, kind in kinds.items() if re.search(rf"\b{name}\b", text)} or None
