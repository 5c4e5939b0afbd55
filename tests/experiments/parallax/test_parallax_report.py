"""The report: tables, promises that are broken are said to be, answers that differ are said to."""

from dataclasses import replace

import pytest

from models.registry import workloads_for
from models.workload import Workload
from refimpl.experiments.cells.cell import Cell
from refimpl.experiments.cells.report import Experiment, Finding, Table, markdown
from refimpl.experiments.cells.run import Runner
from refimpl.experiments.parallax import convergence, everything, partitions, replay_check, sparsity, throughput
from refimpl.experiments.parallax.context import Context, Summary, plotted

LM, CNN, *_ = workloads_for("throughput")


def summary(architecture, speed, workload=LM, machines=8, **result):
    cell = Cell("throughput", workload, architecture, machines, 6, "100mbit")
    return Summary(cell, 1 / speed, 0.0, speed, 1, 1, 0.5, result)


def test_a_report_holds_tables_sentences_plots_and_failures(tmp_path):
    finding = Finding("Partitions", [Table("of P", ["P", "seconds"], [["1", "0.5"]])], ["So it is."],
                      {"speeds": plotted({"measured": [(1, 2), (4, 3)], "fitted": []}, "P", "y", log="x")})
    context = Context(Runner(tmp_path, "job"), quick=True, cores=1)
    experiment = Experiment(tmp_path, {"partitions": lambda: finding}, everything.head(context),
                            lambda: everything.foot(context), ["a cell: status 1"])
    text = experiment.run(quick=True)[0].read_text()
    for part in ("## Partitions", "**of P**", "| 1 | 0.5 |", "So it is.", "![y over P](speeds.svg)", "a cell: status 1",
                 "## Assumptions", "--quick"):
        assert part in text
    assert (tmp_path / "speeds.svg").stat().st_size > 1000


def test_a_report_keeps_the_sections_of_earlier_runs_in_order(tmp_path):
    def report(name, sentence):
        studies = dict.fromkeys(["throughput", "sparsity", "partitions"], lambda: Finding(name.title(), [], [sentence]))
        return Experiment(tmp_path, studies, "# Head\n").run([name])[0].read_text()

    report("partitions", "Eight.")
    report("throughput", "Slow.")
    text = report("throughput", "Fast.")
    assert text.index("Fast.") < text.index("Eight.") and "Slow." not in text and "## Sparsity" not in text
    assert text.count("*Written ") == 2


def test_markdown_puts_numbers_to_the_right():
    assert markdown(Table("t", ["model", "x"], [["lm", "1"]])).splitlines()[2:] == ["| model | x |", "| --- | ---: |",
                                                                                    "| lm | 1 |"]


def test_ratios_beside_the_goals_and_sentences():
    headline = [summary(a, s, w) for a, s, w in (("hybrid", 70, LM), ("allreduce", 10, LM), ("naive ps", 50, LM),
                                                 ("hybrid", 99, CNN), ("allreduce", 100, CNN))]
    predicted = {s.cell.file: (1.0, 1.0 / s.speed) for s in headline}
    table = throughput._ratios(headline, predicted)
    assert ["lm", "hybrid / allreduce", "1.08", "7.00", "6.02", "yes"] in table.rows
    assert ["lm", "hybrid / naive ps", "1.01", "1.40", "2.80", "no"] in table.rows
    said = throughput._sentences(headline, [summary("hybrid", 10, machines=1), summary("hybrid", 18, machines=2)])
    assert "0.990 of allreduce's speed (within 3 %)" in said[0] and said[1].endswith("by 1.80.")


def test_a_broken_promise_of_sparsity_is_said():
    assert sparsity._broken(4, {"hybrid": 1.0, "allreduce": 2.0, "optimised ps": 0.99, "auto": 1.04}) == []
    said = sparsity._broken(4, {"hybrid": 1.2, "allreduce": 2.0, "optimised ps": 1.0, "auto": 1.3})
    assert len(said) == 2 and "hybrid takes 1.200 s, optimised ps 1.000 s" in said[0]


def test_answers_that_differ_are_said_to():
    one = dict(parameters="a", losses=[1.0], curve=[{"perplexity": 2.0}])
    assert "are one" in convergence.verdict([summary("hybrid", 1, **one), summary("auto", 1, **one)])
    other = {**one, "losses": [1.5]}
    assert "DIFFER" in convergence.verdict([summary("hybrid", 1, **one), summary("auto", 1, **other)])


class MadeUp:
    """A profile, and a runner whose every cell took a second."""

    mean_seconds, failed = 0.004, []
    entries = [[type("Entry", (), {"gradients": {"embedding": 2, "softmax_weight": 4, "source_embedding": 3}})]]

    def ids(self, number):
        return range(number)

    def slowest_seconds(self, ranks):
        return 0.005

    def results(self, cells):
        point = {"step": 5, "seconds": 1.0, "perplexity": 7.0}
        result = {"step_seconds": [1.0, 1.0], "examples": 9, "losses": [1.0], "curve": [point], "cpu_seconds": 1.0,
                  "search": {"samples": [{"partitions": 4, "seconds": 1.0}], "chosen": 4}, "parameters": "ab",
                  "strategies": {"embedding": "server"}, "crossed": {"sent": [0], "received": [4]}}
        return {cell.file: result for cell in cells}


@pytest.mark.parametrize("experiment", [throughput, sparsity, partitions, convergence, replay_check])
def test_every_experiment_tells_what_its_cells_came_to(experiment, monkeypatch):
    monkeypatch.setattr(throughput, "predicted_exchange", lambda *_: 0.25)
    context = Context(MadeUp(), quick=True, cores=2)
    context.profile = lambda workload, microbatches=None: MadeUp()
    finding = experiment.study(context)
    assert all(len(row) == len(table.columns) for table in finding.tables for row in table.rows)
    assert any(table.rows for table in finding.tables) and all(finding.sentences)
    assert bool(finding.pictures) == (experiment is not replay_check)


SEARCH = {"search_partitions": True, "search_warmup": 0, "search_sample": 1}
TINY = Workload("tiny", "lm", dict(vocabulary=300, embedding=4, hidden=8, projection=0, layers=1, samples=20, keep=0.9),
                dict(streams=2, window=5))


PLAIN = Cell("try", TINY, "hybrid", 2, 2, "1gbit", "real", steps=2, evaluate_every=1, warm=0)


def ran(folder, cells):
    """Run cells on the cluster; return the result of each."""
    runner = Runner(folder, "refimpl.experiments.parallax.ranks")
    found = runner.results(cells)
    assert runner.failed == [] and len(found) == len(cells)
    return [found[cell.file] for cell in cells]


@pytest.mark.thorough
def test_cells_run_on_the_cluster_and_agree(cluster, tmp_path):
    real, naive, searched = ran(tmp_path, [PLAIN, replace(PLAIN, contender="naive ps"),
                                           replace(PLAIN, evaluate_every=0, warm=1, options=SEARCH)])
    assert real["losses"] == naive["losses"] and real["curve"][1]["step"] == 2
    assert real["parameters"] == naive["parameters"] is not None
    assert searched["search"]["finished"] and searched["search"]["chosen"] >= 1


def test_a_replayed_cell_receives_what_it_sends_and_is_run_once(cluster, tmp_path):
    cells = [replace(PLAIN, compute="replay", evaluate_every=0, slowdown=2.0)]
    replayed, = ran(tmp_path, cells)
    assert len(replayed["step_seconds"]) == 2 and replayed["examples"] == 40 and replayed["parameters"] is None
    assert sum(replayed["crossed"]["sent"]) == sum(replayed["crossed"]["received"]) > 0
    before = {p: p.stat().st_mtime_ns for p in tmp_path.rglob("*.json") if p.parent.name == "try"}
    ran(tmp_path, cells)
    assert before == {p: p.stat().st_mtime_ns for p in before}
