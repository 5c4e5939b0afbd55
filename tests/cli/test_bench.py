"""bench on the command line: one JSON object or one table; a missed aim is marked and is no error."""

import json
from dataclasses import asdict

import pytest

from refimpl.cli import bench, main
from refimpl.collectives.units import size_name
from refimpl.experiments.bench import conv, rows
from refimpl.experiments.bench.allreduce.run import CLUSTER_WORKS, WORKS
from refimpl.experiments.bench.timing import Row, report
from refimpl.experiments.bench.training import HYBRID, PEER
from refimpl.experiments.bench.training.modules import WORKS as TORCH_WORKS
from refimpl.experiments.bench.training.run import describe, parts

MADE_UP = [Row("conv", "big", "refimpl", False, 2.0), Row("conv", "big", "slow", True, 0.004),
           Row("conv", "big", "slower", True, 5.0), Row("unnamed", "small", "refimpl", False, 1e-5),
           Row("unnamed", "small", "peer", True, 1e-6)]


@pytest.fixture
def made_up(monkeypatch):
    """Replace the measurement; remember with what arguments it was called."""
    calls = []
    monkeypatch.setattr(conv, "run", lambda **length: calls.append(length) or MADE_UP)
    return calls


def test_options_reach_the_bench_and_json_is_one_object_of_rows_and_ratios(made_up, capsys):
    assert main(["bench", "conv", "--json"]) == 0
    assert main(["bench", "conv", "--json", "--seconds", "0.5", "--rounds", "3"]) == 0
    assert made_up == [{}, {"seconds": 0.5, "rounds": 3}]
    result = json.loads(capsys.readouterr().out.splitlines()[0])
    assert result == {"rows": [asdict(row) for row in MADE_UP], "ratios": {"conv": 0.004 / 2.0, "unnamed": 1e-6 / 1e-5}}


def test_the_table_marks_a_missed_aim_and_the_status_stays_0(made_up, capsys):
    assert main(["bench", "conv"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if "MISSED" in line] == [line for line in lines if " slow " in line]
    assert len([line for line in lines if "2.50 x" in line]) == 1


def test_table_rows_hold_times_ratios_and_aims():
    assert bench.table_rows(report(MADE_UP)) == [
        ("conv", "big", "refimpl", "2 s", "", ""),
        ("conv", "big", "slow", "4 ms", "0.00 x", ">= 0.8 MISSED"),
        ("conv", "big", "slower", "5 s", "2.50 x", ""),
        ("unnamed", "small", "refimpl", "10 us", "", ""),
        ("unnamed", "small", "peer", "1 us", "0.10 x", ""),
    ]
    reached = bench.table_rows(report([Row("lstm", "", "refimpl", False, 1.0), Row("lstm", "", "peer", True, 1.0)]))
    assert reached[1][-2:] == ("1.00 x", ">= 1")
    alone = report([Row("conv", "", "refimpl", False, 1.0)])
    assert bench.table_rows(alone) == [("conv", "", "refimpl", "1 s", "", "")]


def test_every_aim_names_a_work_that_some_bench_measures(monkeypatch):
    assert bench.BENCHES == ("rows", "lstm", "conv", "step", "allreduce", "training", "torch", "consistency", "gpu")
    pytest.importorskip("torch")
    monkeypatch.setattr(rows, "COUNT", 64)
    monkeypatch.setattr(rows, "race", lambda work, size, *_, **length: [Row(work, size, "refimpl", False, 1.0)])
    of_rows = {row.work for row in rows.run()}
    of_allreduce = {f"{work} {size_name(size)}" for work, setting in WORKS.items() for size in setting["sizes"]}
    of_gpu = {"gpu-lm-step", "gpu-cnn-step", "gpu-aggregate-rows"}  # measured in test_bench_gpu.py
    others = {"lstm", "conv", "lm-step", "microbatches", "training-cluster",
              *(f"torch-{work}{where}" for work in TORCH_WORKS for where in ("", "-cluster"))}
    assert set(bench.REACH) <= of_rows | others | of_gpu | of_allreduce
    assert set(bench.LINE_RATE) == set(CLUSTER_WORKS)


@pytest.mark.parametrize("bench_, option, where", [
    ("conv", ["--sizes", "1KiB"], "allreduce"), ("training", ["--sizes", "1KiB"], "allreduce"),
    ("conv", ["--cluster"], "allreduce or training or torch"), ("conv", ["--quick"], "torch")])
def test_options_of_one_bench_are_refused_elsewhere(bench_, option, where, capsys):
    assert main(["bench", bench_, *option]) == 1
    assert f"{option[0]} works only with bench {where}, not bench {bench_}" in capsys.readouterr().err


def test_sizes_are_read_as_people_write_them():
    assert [bench._bytes(text) for text in ("7", "12B", "64KiB", "16MiB")] == [7, 12, 65536, 16 << 20]


def test_line_rate_is_judged_from_a_mebibyte_on():
    assert bench._line_rate_verdict("cluster 1 KiB", 0.1) == ""
    assert bench._line_rate_verdict("cluster 1 MiB", 0.96).endswith("MISSED)")
    assert bench._line_rate_verdict("cluster-hierarchical 16 MiB", 0.96) == " (reach 0.95)"


def training_row(name, seconds, compute, line):
    return {"name": name, "seconds": seconds, "compute_seconds": compute, "line_seconds": line, "words_per_second": 1.0,
            "card_bytes": [line * 25e6, 0.0]}


def test_the_ratio_is_cut_into_computation_bytes_and_overhead():
    rows = [training_row(HYBRID, 1.0, 0.25, 0.5), training_row(PEER, 3.0, 0.5, 1.5)]
    found = parts(rows)
    assert found["bytes_ratio"] == 3.0
    assert found["seconds"] == {HYBRID: (0.25, 0.5, 0.25), PEER: (0.5, 1.5, 1.0)}
    assert found["share"] == {"computation": 0.125, "bytes": 0.5, "overhead": 0.375}
    touched = {"alpha": {"embedding": 0.02}, "dense_elements": 1000, "rows_to_dense": 1.5}
    lines = describe({"rows": rows, "parts": found, "touched": touched})
    assert "embedding 2.00%" in lines[0] and "computation  500 + line 1500 + rest 1000 ms" in lines[2]
    assert "bytes alone would give 3.00 x" in lines[3] and "overhead 38%" in lines[3]


def test_without_the_peer_or_the_cards_there_are_no_parts():
    assert parts([training_row(HYBRID, 1.0, 0.25, 0.5)]) == {}
    assert parts([{"name": HYBRID, "seconds": 1.0}, {"name": PEER, "seconds": 2.0}]) == {}
