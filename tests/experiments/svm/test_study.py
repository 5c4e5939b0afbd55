"""The experiment about support vector machines: what is counted, foretold and said."""

from types import SimpleNamespace

import numpy as np
import pytest

from refimpl.cli import main
from refimpl.experiments.svm import BASE, LATENCY, MESSAGE, OURS, PARTS, RATE, rules
from refimpl.experiments.svm.study import Counted, finding, study
from refimpl.svm.foretell import Foretold


def counted(evaluations, rounds, ranks=(1, 4), seconds=8.0, alone=2.0):
    traffic = SimpleNamespace(rounds=rounds)
    solver = SimpleNamespace(evaluations=evaluations, iterations=7, objective=None, traffic=traffic)
    return Counted(seconds, alone, [Foretold(size, np.arange(size) * 1000, [solver]) for size in ranks])


def test_the_rules_have_the_papers_periods():
    found = rules(4000, 10.0)
    periods = [options.period for name, options in found.items() if name.startswith("multi")]
    assert periods == [2, 500, 1000, 200, 400, 2000] and list(found)[0] == BASE and found[OURS].block == 64
    assert [options.elimination for options in found.values()].count("single") == len(periods)


def test_seconds_are_the_formulas():
    one = counted(10, 50)
    assert one.seconds_on(one.plans[0]) == 8.0
    assert one.seconds_on(one.plans[1]) == pytest.approx(2 + 6 / 4 + 50 * (LATENCY + 3 * MESSAGE) + 3000 / RATE)


def test_what_is_said_comes_from_the_counts():
    work = {rule: counted(400_000, 90) for rule in rules(100, 1.0)}
    work |= {BASE: counted(2_000_000, 300), "multi, every 500": counted(300_000, 90), OURS: counted(100_000, 9)}
    found = finding("letter", 100, work)
    assert "Elimination alone saves 85% of the evaluations (multi, every 500)" in found.sentences[0]
    assert f"{OURS}, 20.0 times fewer" in found.sentences[1] and "10 times fewer rounds" in found.sentences[2]
    assert found.sentences[3].startswith("Foretold, a training is fastest on: 4 ranks (first order), ")
    assert [row[2] for row in found.tables[0].rows if row[0] == BASE] == ["1.0"]


def test_a_set_that_is_not_installed_names_its_package(monkeypatch, tmp_path):
    monkeypatch.setattr("models.svm.named.R_PACKAGES", str(tmp_path))
    assert "r-cran-mlbench" in study("letter").sentences[0] and set(PARTS) >= {"letter", "fashion-mnist"}


def test_the_command_writes_a_report(tmp_path, capsys, monkeypatch):
    pytest.importorskip("sklearn")
    monkeypatch.setattr("refimpl.experiments.svm.study.QUICK", 120)
    assert main(["experiment", "svm", "--quick", "--only", "breast_cancer", "--output", str(tmp_path)]) == 0
    report = (tmp_path / "report.md").read_text(encoding="utf-8")
    assert "26 times" in report and "| blocks of 64 |" in report and (tmp_path / "svm-breast_cancer.svg").exists()
    assert "4,096" in capsys.readouterr().out
