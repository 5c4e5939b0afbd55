"""Cells: their settings, what is kept and what is run again; workloads, proportions, tables."""

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from models.registry import workloads_for
from models.workload import Workload
from refimpl.experiments.cells import proportions
from refimpl.experiments.cells.cell import ARCHITECTURES, Cell, allreduce_of, code_version, kept_result
from refimpl.experiments.cells.proportions import PAPER
from refimpl.experiments.cells.run import Runner
from refimpl.experiments.parallax import sparsity
from refimpl.experiments.parallax.ranks import together
from refimpl.experiments.parallax.plans import naive_plan
from refimpl.experiments.parallax.context import Context, summarise
from refimpl.plan.validate import check_plan
from refimpl.training.consistency import CONSISTENCIES
from refimpl.training.options import Options
from refimpl.transport.machines import in_blocks

LM, CNN, NMT = workloads_for("throughput")
CELL = Cell("throughput", LM, "hybrid", 8, 6, "100mbit", options={"partitions": 3})


def keep(directory, cell, version="v", result={"a": 1}):
    path = directory / cell.file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"cell": cell.to_json(), "version": version, "result": result}))


def test_a_cell_survives_json_and_names_a_file_of_its_own():
    cell = replace(CELL, workload=CNN)
    again = Cell.from_json(json.loads(json.dumps(cell.to_json())))
    assert again.file == cell.file and again.workload.make_model().variables == cell.workload.make_model().variables
    others = [CELL, replace(CELL, machines=4), replace(CELL, options={}), replace(CELL, slowdown=2.0),
              replace(CELL, contender="ps naive"), replace(CELL, seed=1)]
    assert len({c.file for c in others}) == len(others)


def test_a_kept_cell_needs_the_same_settings_and_code(tmp_path):
    keep(tmp_path, CELL)
    assert kept_result(tmp_path, CELL, "v") == {"a": 1}
    assert kept_result(tmp_path, CELL, "w") is None
    assert kept_result(tmp_path, replace(CELL, steps=9), "v") is None
    (tmp_path / CELL.file).write_text('{"cell": ')  # cut off in the middle of writing
    assert kept_result(tmp_path, CELL, "v") is None


def test_the_code_version_changes_with_any_source(tmp_path):
    from refimpl.experiments.cells import cell
    for source in cell.SOURCES:
        path = tmp_path / source
        path = path if source.endswith(".py") else path / "code.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("a = 1\n")
    root = Path(__file__).parents[3]
    assert all((root / source).exists() for source in cell.SOURCES)
    code_version.cache_clear()
    before = code_version(tmp_path)
    (tmp_path / "models" / "code.py").write_text("a = 2\n")
    code_version.cache_clear()
    assert code_version(tmp_path) != before
    code_version.cache_clear()


def test_only_missing_cells_are_run_and_a_failure_leaves_the_rest_to_run(tmp_path, monkeypatch):
    cells = [replace(CELL, compute="real", contender=a, machines=m)
             for m in (1, 2) for a in ("hybrid", "auto", "naive ps")]
    runner, jobs = Runner(tmp_path, "job"), []
    keep(runner.directory, cells[0], runner.code)

    def run(machines, each, rate, arguments, *_, **__):
        job = json.loads(Path(json.loads(arguments[-1])["path"]).read_text())
        some = [Cell.from_json(c) for c in job["cells"]]
        jobs.append((machines, [c.contender for c in some]))
        assert (tmp_path / f"network-{machines}x6-100mbit.json").exists()
        for cell in some:
            if cell.contender == "auto" and machines == 2:
                return SimpleNamespace(returncode=1, stderr="ValueError: no such strategy\n===\n")
            keep(runner.directory, cell, job["version"])
        return SimpleNamespace(returncode=0, stdout="null")

    monkeypatch.setattr("refimpl.experiments.job.run_on_cluster", run)
    found = runner.results(cells)
    assert jobs == [(1, ["auto", "naive ps"]), (2, ["hybrid", "auto", "naive ps"]), (2, ["naive ps"])]
    assert set(found) == {c.file for c in cells} - {cells[4].file}
    assert len(runner.failed) == 1 and "no such strategy" in runner.failed[0] and "auto" in runner.failed[0]
    jobs.clear()
    Runner(tmp_path, "job").results(cells[:4])
    assert jobs == []


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_every_architecture_has_options_that_the_trainer_knows(architecture):
    options = Options(**replace(CELL, contender=architecture).trainer_options)
    assert options.local_aggregation == (architecture not in ("allreduce", "naive ps"))
    assert options.steps == CELL.warm + CELL.steps and options.partitions == 3


def test_the_allreduce_sends_least_between_machines():
    assert [allreduce_of(*c) for c in ((1, 6), (8, 6), (8, 1), (3, 1))] == [
        "direct", "hierarchical", "halving-doubling", "binary-blocks"]


def test_our_sizes_are_a_64th_of_the_papers():
    variables = LM.make_model().variables
    for sparse, paper in ((False, PAPER["lm"].dense), (True, PAPER["lm"].sparse)):
        ours = sum(v.size for v in variables if v.sparse == sparse)
        assert paper / ours == pytest.approx(64, rel=0.01)
    assert PAPER["lm"].row_elements / PAPER["lm"].dense == pytest.approx(0.742, abs=1e-3)
    largest = max(v.size for v in CNN.make_model().variables) / sum(v.size for v in CNN.make_model().variables)
    assert largest == pytest.approx(0.11, abs=0.01)


def test_the_slowdown_keeps_the_papers_proportion():
    slowdown = proportions.slowdown_of(LM, "100mbit", 4e-3)
    card = sum(v.nbytes for v in LM.make_model().variables if not v.sparse) / 12.5e6
    assert 4e-3 * slowdown / card == pytest.approx(proportions.computation_to_dense("lm"), rel=0.01)
    assert proportions.slowdown_of(LM, "200mbit", 4e-3) == pytest.approx(slowdown / 2, rel=0.01)


def test_at_length_120_every_word_is_touched():
    lengths = sparsity.BY_LENGTH["lm"].workloads
    data, vocabulary = lengths[120].make_data(3), lengths[120].sizes["vocabulary"]
    batch = data.microbatch(1, 2)
    assert np.array_equal(np.sort(batch.inputs.ravel()), np.arange(vocabulary))
    short = lengths[4].make_data(3).microbatch(0, 0)
    assert short.inputs.shape == (4, 16) and len(np.unique(short.inputs)) == 64
    assert not np.array_equal(batch.inputs, data.microbatch(1, 1).inputs)
    with pytest.raises(ValueError, match="cannot differ"):
        Workload("x", "lm", dict(vocabulary=9), dict(streams=2, window=5, distinct=True)).make_data(1)


def test_the_translation_models_sizes_are_those_of_its_proportions():
    case, paper = sparsity.BY_LENGTH["nmt"], proportions.PAPER["nmt"]
    assert case.our_elements == sum(v.size for v in NMT.make_model().variables if not v.sparse)
    assert case.elements == paper.dense and case.elements / case.our_elements == pytest.approx(64, rel=0.01)
    alphas = [len(np.unique(work.make_data(2).microbatch(0, 0).inputs)) for work in case.workloads.values()]
    assert alphas == sorted(alphas, reverse=True) and NMT.shape["length"] in case.workloads


def test_ranks_measurements_add_up_by_machine():
    def rank(n):
        return {"crossed": {"sent": n, "received": 0}, "cpu": 0.5}

    found = together([rank(n) for n in (1, 2, 4, 8)], ((0, 1), (2, 3)))
    assert found["crossed"]["sent"] == [3, 12] and found["cpu_seconds"] == 2.0
    result = {**found, "step_seconds": [2.0, 1.0, 3.0], "examples": 10}
    summary = summarise(CELL, result, cores=2)
    assert (summary.seconds, summary.speed, summary.out, summary.into, summary.busy) == (2.0, 5.0, 12, 0, 0.5)


@pytest.mark.parametrize("compute", [None, "real", "replay"])
@pytest.mark.parametrize("quick", [True, False])
def test_quick_cells_are_few_and_small_and_computed_as_asked_for(quick, compute, tmp_path):
    from refimpl.experiments.parallax import partitions, throughput

    class Known:
        mean_seconds = 0.004

    context = Context(Runner(tmp_path, "job"), quick, compute)
    context.profile = lambda workload, microbatches=None: Known
    cells = [*throughput.cells_of(context),
             *(cell for model in sparsity.BY_LENGTH for cell in sparsity.cells_of(context, model)),
             *(cell for workload in partitions.WORKLOADS for cell in partitions.cells_of(context, workload))]
    assert max(c.ranks for c in cells) == (8 if quick else 48)
    assert len({c.file for c in cells}) == len(cells)
    assert {c.compute for c in cells} == ({compute} if compute else {"real", "replay"})
    assert all(c.slowdown == 1.0 for c in cells if c.compute == "real")


def test_the_naive_servers_are_one_a_machine_and_take_whole_variables():
    variables, machines = CNN.make_model().variables, in_blocks(48, 6)
    plan = naive_plan(variables, machines)
    strategies = plan.strategies
    assert {s.owners[0] for s in strategies.values()} <= set(range(0, 48, 6)) and not plan.local_aggregation
    assert all(s.name == "server" and len(s.owners) == 1 for s in strategies.values())
    nbytes, load = {v.name: v.nbytes for v in variables}, dict.fromkeys(range(0, 48, 6), 0)
    for name, strategy in strategies.items():
        load[strategy.owners[0]] += nbytes[name]
    assert max(load.values()) / sum(load.values()) == pytest.approx(0.173, abs=1e-3)
    check_plan(plan, variables, 48, 48, machines, consistencies=CONSISTENCIES)
