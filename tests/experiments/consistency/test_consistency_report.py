"""The experiment's cells and its report: tables, verdicts that fail, pictures; a table without what has failed."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from refimpl.experiments import job
from refimpl.experiments.cells.cell import CONSISTENCIES, Cell
from refimpl.experiments.cells.report import Experiment
from refimpl.experiments.cluster import Event
from refimpl.experiments.cells.ranks import options_of
from refimpl.experiments.cells.run import Runner
from refimpl.experiments.consistency.study import (
    FOOT, LEARNER, head_of, learning, real_cells, replayed_cells, throughput, verdicts,
)
from refimpl.experiments.consistency import SETTINGS, cell_of, consistency_of


def result_of(cell: Cell) -> dict:
    """Return what a made-up training left: every worker does a step a second, and is one update late."""
    late, planned = cell.contender != "synchronous", cell.warm + cell.steps
    one = [0, 1, 2, 3, *(worker for _ in range(planned) for w in range(4) for worker in (w, w))]
    pace = 2.0 if late else 1.0
    steps = [[worker, step, step / pace, 9.0 - step / 10, 160] for step in range(1, planned + 1)
             for worker in range(4)]
    return {"steps": steps, "entries": [one] * 4 if late else [], "rows": [{"0": 90, "3": 10}] if late else [],
            "sent": 4e6 * planned, "heldout": {"perplexity": 1234.0}}


def test_the_report_holds_tables_verdicts_and_pictures(tmp_path):
    replayed, real = replayed_cells(True, 2.0), real_cells(True)
    results = {cell.file: result_of(cell) for cell in [*replayed, *real]}
    assert len(results) == len(CONSISTENCIES) * (len(SETTINGS) + 1)
    studies = {"throughput": lambda: throughput(replayed, results), "learning": lambda: learning(real, results)}
    experiment = Experiment(tmp_path, studies, head_of(replayed[0], 0.18), lambda: FOOT, ["one: status 1"])
    text = experiment.run(quick=True)[0].read_text()
    for part in ("| no straggler | asynchronous | 1,280 | 2.00 | 2.79 | 3 | 0.30 | 3 | 1.00 MB |", "--quick", "180 ms",
                 "| synchronous | 3.100 | 60.00 | 60.00 | 1,234 | 0.00 |", "one: status 1", "](throughput.svg)",
                 "](staleness.svg)", "](loss.svg)", "200mbit", "50mbit"):
        assert part in text, part
    assert "has 2.00 times the throughput of synchronous, LESS THAN 2.2." in text
    assert "has 2.00 times the throughput of synchronous, at least 0.95." in text
    assert (tmp_path / "loss.svg").read_text().startswith("<svg")


def test_what_has_failed_is_left_out():
    replayed = replayed_cells(True, 2.0)
    some = {cell.file: result_of(cell) for cell in replayed if cell.contender == "asynchronous"}
    section = throughput(replayed, some)
    assert len(section.tables[0].rows) == len(SETTINGS) and section.tables[0].rows[0][3] == "-"
    assert section.sentences == [] and verdicts({}) == []
    assert throughput(replayed, {}).pictures == {} == learning(real_cells(True), {}).pictures


@pytest.mark.parametrize("contender", CONSISTENCIES)
def test_every_cell_has_options(contender):
    cell = cell_of(LEARNER, contender, "computes", "real", 5)
    assert options_of(cell).consistency == consistency_of(cell) and options_of(cell).slow_rank == {"3": 3.0}
    assert options_of(cell).clip_norm is None and not options_of(cell).local_aggregation
    assert options_of(replace(cell, compute="replay")).slow_rank == {}  # its model takes longer itself


def test_real_computation_stays_here_and_a_slow_cable_is_slow_from_the_beginning(monkeypatch, tmp_path):
    calls, done = [], SimpleNamespace(returncode=0, stdout="null")
    monkeypatch.setattr(job, "launch", lambda ranks, *_, **__: calls.append(("here", ranks)) or done)
    monkeypatch.setattr(job, "run_on_cluster", lambda machines, each, rate, *_, events, **__:
                        calls.append((machines, each, rate, events)) or done)
    runner = Runner(tmp_path, "job")
    for compute, straggler in (("real", "computes"), ("replay", "none"), ("replay", "cable")):
        runner.start([cell_of(LEARNER, "asynchronous", straggler, compute, 1)])
    assert calls == [("here", 4), (4, 1, "200mbit", ()), (4, 1, "200mbit", (Event(3, 50_000_000, 0.0),))]
