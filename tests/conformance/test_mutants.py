"""Classic bugs are seen and named (of meshes: test_mesh.py), weak checkers too; nobody is accused who is right.

``make test-mutants`` tries every bug, and 200 correct implementations: here some of them are.
"""

from collections import Counter

import pytest

from mutants import checkers, page, run
from mutants.__main__ import main
from mutants.correct import correct
from mutants.planted import MUTANTS
from refimpl.conformance.cases import RANKS


def test_every_classic_bug_is_planted():
    assert {m.bug for m in MUTANTS} | {c.bug for c in checkers.CHECKERS} == set(range(1, 57))


def test_the_page_shows_the_bugs_beside_the_right_lines():
    """docs/bugs.md; else run python -m mutants.page."""
    text = page.PAGE.read_text("utf-8")
    bare = page.BLOCK.sub("", text)
    assert page.written(text) == page.written(bare) == text != bare


@pytest.mark.parametrize("mutant", [m for m in MUTANTS if m.kind != "mesh"][::7], ids=lambda m: f"{m.bug} {m.words}")
@pytest.mark.thorough("7 ", "18 ", "28 ")
def test_a_planted_bug_is_seen_and_named(mutant):
    row = run.run_mutant(mutant, 1 if mutant.kind == "owner" else 3)  # their scripts are the same for any number
    assert row["killed"] and row["named"], row["diagnosis"]


@pytest.mark.parametrize("checker", checkers.CHECKERS, ids=lambda c: c.words)
def test_a_weak_checker_is_seen_and_named(checker):
    row = run.run_checker(checker, 4)
    assert row["killed"] and row["named"], row["diagnosis"]


def test_the_suite_itself_is_not_weak():
    assert checkers.audit(run.aggregates(4)) == []


@pytest.mark.parametrize("number", range(4))
@pytest.mark.thorough("0", "1")
def test_nobody_is_accused_who_is_right(number):
    assert run.accusations(number) == []


def test_correct_implementations_are_many():
    drawn = [correct(number) for number in range(200)]
    assert len({semantics for _, semantics, _ in drawn}) == 200
    assert set(Counter(ranks for ranks, _, _ in drawn)) == set(RANKS)
    for rule in ("sum", "average", "per-row-count", "per-occurrence"):
        assert sum(semantics.sparse == rule for _, semantics, _ in drawn) > 20


@pytest.mark.thorough
def test_a_wrong_implementation_would_be_accused(monkeypatch):
    monkeypatch.setattr(run, "adapter", lambda semantics, turn: lambda world: checkers.TooLow(world, semantics, turn))
    assert run.accusations(0)


@pytest.mark.thorough
def test_the_command(monkeypatch, capsys):
    monkeypatch.setattr(run, "MUTANTS", MUTANTS[:2])
    assert main(["--configurations", "2"]) == 0
    assert "6 of 6 seen, 6 named; 0 false alarms" in " ".join(capsys.readouterr().out.split())
    monkeypatch.setattr(run, "MUTANTS", [MUTANTS[0].__class__(0, "none", ("x",), checkers.Reference)])
    assert main(["--configurations", "0"]) == 1
    assert "4 of 5 seen" in capsys.readouterr().out
