"""Run all mutants and all correct implementations, and count what the suite makes of them."""

from mutants.checkers import CHECKERS, audit
from mutants.correct import adapter, correct
from mutants.planted import MUTANTS
from refimpl.conformance.cases import all_cases
from refimpl.conformance.diagnose import summary
from refimpl.conformance.runner import run_local


def run_mutants(ranks: int = 4, configurations: int = 200) -> tuple[list[dict], list[str]]:
    """Run every mutant on ``ranks`` ranks (of meshes on 4: 2 x 2), and that many correct implementations. Local.

    Returns (what became of each mutant, see ``run_mutant``; what is said of correct implementations).
    """
    rows = [run_mutant(mutant, 4 if mutant.kind == "mesh" else ranks) for mutant in MUTANTS]
    rows += [run_checker(checker, ranks) for checker in CHECKERS]
    alarms = [f"the suite itself is called weak: {weakness}" for weakness in audit(aggregates(ranks))]
    for number in range(configurations):
        alarms += accusations(number)
    return rows, alarms


def run_mutant(mutant, ranks: int, only: str = "") -> dict:
    """Return what the suite made of one planted bug. only: in the cases with this in their name."""
    cases = [case for case in cases_for(ranks, mutant.kind) if only in case.name]
    found = summary(run_local(mutant.make, ranks, cases).failed)
    first = found[0][0] if found else None
    return {"bug": mutant.bug, "words": mutant.words, "killed": bool(found),
            "named": bool(first) and first.code in mutant.codes,
            "diagnosis": first.words if first else "", "cases": len(found[0][1]) if found else 0}


def run_checker(checker, ranks: int) -> dict:
    """Return what the audit made of one weak checker."""
    weak = audit([checker.change(case) for case in aggregates(ranks)], checker.judged)
    return {"bug": checker.bug, "words": checker.words, "killed": bool(weak), "named": weak == [checker.code],
            "diagnosis": f"the suite does not see a fault: {', '.join(weak)}" if weak else "", "cases": len(weak)}


def cases_for(ranks: int, kind: str):
    """Return the cases of owners, of meshes, of codecs, or "" all others: no manifest and no bug concerns two of these."""
    return [case for case in all_cases(ranks) if kind == (case.kind if case.kind in ("owner", "mesh", "codec") else "")]


def aggregates(ranks: int):
    """Return the cases of dense and row gradients, without inf, NaN and None."""
    return [c for c in all_cases(ranks) if c.kind in ("dense", "rows") and not (c.needs or "nonfinite" in c.settings)]


def accusations(number: int) -> list[str]:
    """Return what the suite holds against the number-th correct implementation: nothing, if the suite is right."""
    ranks, semantics, turn = correct(number)
    outcome = run_local(adapter(semantics, turn), ranks, cases_for(ranks, ""))
    return [f"correct implementation {number} on {ranks} ranks: {v.case}: {v.why}" for v in outcome.failed]
