"""What encoding gains: a step's parts, other rates, steps to a loss, and what stands in the report."""

import importlib.util

import pytest

from refimpl.cli import main
from refimpl.experiments.cells.report import section
from refimpl.experiments.compression import BASE, DDP, RATE, study

NAMES = {BASE: (1.0, 0.5), "bf16": (0.6, 0.25), "fp16": (0.97, 0.25), "integers:16": (0.6, 0.25),
         "integers:8": (0.4, 0.125), "topk:0.01": (0.3, 0.05), DDP: (1.2, 0.5), "DDP fp16 hook": (0.6, 0.25)}
"""Name -> seconds of a step, seconds of them on the line."""
CURVES = {BASE: [[4, 3.0], [8, 2.0], [12, 1.0], [16, 0.5]], "bf16": [[4, 3.0], [8, 0.9], [12, 0.8], [16, 0.7]],
          "topk:0.01": [[4, 3.0], [8, 3.0], [12, 2.0], [16, 1.5]]}


def raced(alone=0.2):
    return {RATE: {name: {"seconds": [step, step, 2 * step], "card": [line * 25e6, 0], "alone": alone + 0.01 * place}
                   for place, (name, (step, line)) in enumerate(NAMES.items())}}


def test_the_parts_of_a_step_add_up_to_it():
    parts = study.split(RATE, "fp16", raced()[RATE])
    assert parts == pytest.approx({"step": 0.97, "computation": 0.2, "coding": 0.02, "line": 0.25, "rest": 0.5})
    assert study.split(RATE, "DDP fp16 hook", raced()[RATE])["computation"] == pytest.approx(0.26)


def test_other_cards_change_only_the_seconds_on_the_line():
    splits = {RATE: {name: study.split(RATE, name, raced()[RATE]) for name in NAMES}}
    assert [study.foreseen(splits, rate, BASE) for rate in study.FORESEEN] == pytest.approx([1.5, 1.0, 0.6, 0.51])
    splits = {RATE: {BASE: study.split(RATE, BASE, raced(alone=0.8)[RATE])}}
    assert study.foreseen(splits, "10gbit", BASE) == pytest.approx(0.81)  # never below what a rank takes alone


def test_the_loss_is_that_of_float32_after_three_quarters():
    assert study.steps_to_loss(CURVES) == {BASE: 12, "bf16": 8, "topk:0.01": None}


def test_what_gains_nothing_is_named_and_the_aim_is_judged(tmp_path):
    finding = study.finding("vgg", 8, raced(), CURVES)
    assert "| bf16 | 600 | 200 | 10 | 250 | 140 | 1.67 | 1.67 to 1.67 | 6.25 | 8 | 50 |" in section(finding, tmp_path)
    assert f"At {RATE} these gain less than 1.05 x: fp16." in finding.sentences
    assert finding.sentences[-1] == (f"At {RATE} bf16 is 1.67 x as fast as float32 and reaches its held-out loss in 8 "
                                     "steps, float32 in 12: at least the 1.6 x that was the aim.")
    rows = {row[1]: row for row in finding.tables[0].rows}
    assert rows["bf16"][-2:] == ["8", "50"] and rows["topk:0.01"][-2:] == ["-", "-"]


def test_an_aim_that_is_missed_is_said():
    slow = raced()
    slow[RATE]["bf16"]["seconds"] = [0.9, 0.9, 0.9]
    assert "LESS THAN the 1.6 x" in study.finding("vgg", 8, slow, CURVES).sentences[-1]


@pytest.mark.thorough
def test_the_command_writes_a_report(cluster, tmp_path, monkeypatch):
    monkeypatch.setitem(study.QUICK, "steps", 4)
    assert main(["experiment", "compression", "--quick", "--only", "cnn", "--output", str(tmp_path)]) == 0
    report = (tmp_path / "report.md").read_text()
    names = [BASE, "bf16", "topk:0.01"] + ["DDP PowerSGD"] * bool(importlib.util.find_spec("torch"))
    assert all(name in report for name in names) and (tmp_path / "compression-cnn.svg").exists()
