"""The bench of a GPU, on CuPy's stand-in: every work runs, and the report says on what, with what and how fast."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from models.registry import workloads_for
from models.workload import Workload
from refimpl.cli.bench import table_rows
from refimpl.enclosure import enclosed_steps
from refimpl.experiments.bench.gpu import bounds, report, run

SHORT = {"seconds": 1e-3, "rounds": 1}
RACED = {workload.model for workload in workloads_for("gpu")}
SMALL = run.Sizes([work for work in workloads_for("warm-up") if work.model in RACED], (50, 3), 20, 1 << 12)


def test_every_work_is_measured_and_reported(cupy, tmp_path):
    if not hasattr(cupy, "standin"):
        pytest.skip("sizes of a test are nothing for a GPU")
    result = run.run(**SHORT, sizes=SMALL, between_ranks=False, trainings=bounds.TRAININGS[:1])
    assert {row["work"] for row in result["rows"]} == {"gpu-lm-step", "gpu-cnn-step", "gpu-aggregate-rows"}
    assert all(row["seconds"] > 0 for row in result["rows"])
    assert result["copy_bandwidth"] > 0 and result["merge_bandwidth"] > 0
    report.write(result, table_rows(result), tmp_path / "report")
    written = json.loads((tmp_path / "report" / "bench-gpu.json").read_text())
    assert written["device"]["gpu"] == "stand-in" and {"python", "numpy"} <= set(written["versions"])
    text = (tmp_path / "report" / "bench-gpu.txt").read_text()
    assert "LM float32 adagrad, step 2: CPU and GPU " in text and "OUTSIDE" not in text
    assert re.search(r"LM step, the host's time: .*compute [\d.]+ ms.*, waiting for device [\d.]+ ms", text)
    assert "gpu-lm-step" in text and "of the GPU's copy bandwidth" in text and written["command"] in text


@pytest.mark.thorough
@pytest.mark.parametrize("training", bounds.TRAININGS[1:], ids=lambda training: training[0])
def test_cpu_and_gpu_are_compared_with_what_is_possible(cupy, training):
    rows = list(bounds.compare(*training))
    assert [row.step for row in rows] == list(range(1, training[1].steps + 1))
    assert all(row.error is None and row.apart <= row.bound and row.share <= 1 and row.moved < 0.1 for row in rows)


def test_what_is_not_possible_is_said():
    _, small = bounds.TRAININGS[0]
    (state, _), points = next(enclosed_steps(*bounds.parts_of(small), bounds.options_of(small, "cpu"), 1)), {}
    for key, enclosure in state.arrays.items():
        points[key] = enclosure.middle.copy()
    wrong = {**points, "parameter/lstm0/bias": points["parameter/lstm0/bias"] + 1e-3}
    row = bounds.row_of("LM", state, {key: 0 for key in points}, points, wrong)
    assert row.share > 1 and "OUTSIDE: GPU: after step 1 element [" in str(row) and "'parameter/lstm0/bias'" in str(row)


@pytest.mark.parametrize("workload", SMALL.workloads, ids=lambda workload: workload.model)
def test_a_step_is_raced_against_pytorchs(cupy, workload):
    torch = pytest.importorskip("torch")
    rows = run.race_step("step", workload, torch, "torch eager", "cuda", steps=8, **SHORT)
    assert [(row.name, row.peer) for row in rows] == [("refimpl", False), ("torch eager", True)]


def test_rows_are_raced_against_coalesce(cupy):
    torch = pytest.importorskip("torch")
    rows = run.race_rows(cupy, SMALL, torch, {**SHORT, "settle": lambda: None}, on="cpu")
    assert [row.name for row in rows] == ["refimpl", "torch coalesce"]


def test_what_failed_between_ranks_is_in_the_report():
    result = {"device": {"device": "cuda"}, "merge_bandwidth": 1e12, "copy_bandwidth": 1.6e12,
              "allreduce": {"error": "no NCCL"}}
    lines = report.describe(result)
    assert "62% of the GPU's copy bandwidth" in lines[1] and lines[2].endswith("no NCCL")


@pytest.mark.thorough
def test_the_report_holds_what_the_tests_came_to(tmp_path):
    root = Path(__file__).parents[2]
    left = tmp_path / "tests-serial.json"
    subprocess.run([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/test_environment.py"],
                   cwd=root, env={**os.environ, "REFIMPL_TEST_REPORT": str(left)}, check=True, timeout=100)
    tests = report.tests_run(tmp_path)
    assert tests["serial"]["passed"] > 0 == tests["serial"]["failed"] and tests["4-ranks"] is None
    lines = report.describe({"device": {}, "merge_bandwidth": 1.0, "copy_bandwidth": 1.0, "tests": tests})
    assert re.search(r"make test-gpu, serial: \d+ passed", lines[2])
    assert lines[-1] == "make test-gpu, 4-ranks: no report: not run, or ended before"


@pytest.mark.parametrize("model, sizes", [("cnn", dict(width=4, blocks=(1, 2))),
                                          ("vgg", dict(stages=(1, 2), width=8, connected=(16,)))])
def test_the_peer_has_the_networks_weights(model, sizes):
    pytest.importorskip("torch")
    from refimpl.experiments.bench.peers import peer_work
    from refimpl.experiments.bench.peers.torch_replica import Replica

    workload = Workload("tiny", model, sizes, dict(images=6, image_size=8))
    work = peer_work(workload)
    peer = Replica(work, work.data(1, steps=1))
    trained = sum(v.size for v in workload.make_model().variables if not v.statistic)
    assert sum(p.numel() for p in peer.module.parameters()) == trained
    losses = [peer.step() for _ in range(30)]
    assert losses[-1] < losses[0] / 2 or model == "vgg" and np.isfinite(losses).all()
