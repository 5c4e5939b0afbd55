"""The benchmarks: what is measured, how ratios are formed, and what happens where a peer is missing."""

import sys

import pytest

from models.lm import PRESETS
from models.workload import Workload
from refimpl.experiments.bench import conv, lstm, rows, step, timing
from refimpl.experiments.bench.timing import Row

SHORT = {"seconds": 1e-3, "rounds": 1}
BENCHES = {
    "rows": (rows, SHORT, {"aggregate-rows", "aggregate-rows-vs-numpy", "merge-rows", "adagrad-rows"}),
    "lstm": (lstm, SHORT, {"lstm", "lstm-projection"}),
    "conv": (conv, SHORT, {"conv"}),
    "step": (step, {**SHORT, "workloads": [Workload("tiny", "lm", PRESETS["tiny"])]},
             {"lm-step", *step.MICROBATCH_STREAMS}),
}


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """Give the kernels little to do."""
    for module, name, value in ((conv, "N", 2), (conv, "SIDE", 8), (rows, "COUNT", 64), (rows, "VOCABULARY", 500),
                                (lstm, "SHAPES", {work: (3, 4, 8, 8, shape[-1] and 4)
                                                  for work, shape in lstm.SHAPES.items()})):
        monkeypatch.setattr(module, name, value)


def test_a_ratio_is_the_best_peers_time_over_our_best_time():
    result = timing.report([
        Row("a", "size", "refimpl", False, 2.0), Row("a", "size", "definition", False, 8.0),
        Row("a", "size", "slow peer", True, 5.0), Row("a", "size", "fast peer", True, 3.0),
        Row("b", "size", "refimpl", False, 4.0), Row("b", "size", "peer", True, 1.0),
        Row("no peer", "size", "refimpl", False, 1.0),
    ])
    assert set(result) == {"rows", "ratios"}
    assert result["ratios"] == {"a": 1.5, "b": 0.25}
    assert result["rows"][3] == {"work": "a", "size": "size", "name": "fast peer", "peer": True, "seconds": 3.0}


def test_rounds_are_interleaved_and_the_median_counts(monkeypatch):
    clock, calls = [0.0], []
    monkeypatch.setattr(timing.time, "perf_counter", lambda: clock[0])
    times = {"ours": [9, 9, 1, 5, 2], "theirs": [9, 9, 4, 4, 7]}  # the first two are not counted

    def work(name):
        calls.append(name)
        clock[0] += times[name][calls.count(name) - 1]

    result = timing.race("work", "size", {"ours": lambda: work("ours")}, {"theirs": lambda: work("theirs")}, 1.0, 3)
    assert calls[4:] == ["ours", "theirs", "theirs", "ours", "ours", "theirs"]
    assert [(r.name, r.peer, r.seconds) for r in result] == [("ours", False, 2), ("theirs", True, 4)]


@pytest.mark.parametrize("name", BENCHES)
def test_every_bench_measures_us_and_its_peers(name):
    pytest.importorskip("torch")
    bench, arguments, works = BENCHES[name]
    measured = bench.run(**arguments)
    assert works <= set(timing.report(measured)["ratios"])
    assert all(row.seconds > 0 for row in measured)


@pytest.mark.parametrize("name", BENCHES)
@pytest.mark.thorough("rows")
def test_a_missing_peer_is_named_and_left_out(name, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "torch", None)  # import torch raises ImportError
    bench, arguments, _ = BENCHES[name]
    measured = bench.run(**arguments)
    assert capsys.readouterr().err.count("torch is not installed") == 1
    assert any(not row.peer for row in measured)
    assert not [row for row in measured if "torch" in row.name]
    without_torch = {"aggregate-rows-vs-numpy", "aggregate-rows-zipf-vs-numpy", *step.MICROBATCH_STREAMS}
    assert set(timing.report(measured)["ratios"]) <= without_torch
