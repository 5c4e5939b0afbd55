"""bench allreduce: every algorithm is checked on exact sums before it is timed; bandwidths and ratios by hand."""

import json

import pytest

from refimpl.cli import main
from refimpl.cli.bench import table_rows
from refimpl.experiments.bench.allreduce import run as allreduce
from refimpl.experiments.bench.timing import paired

TIMES = {"1 KiB": {"refimpl direct": [2.0], "MPICH Allreduce": [3.0], "gloo (torch)": [4.0]},
         "1 MiB": {"refimpl direct": [1.0, 3.0, 1.0], "MPICH Allreduce": [8.0, 24.0, 9.0],
                   "gloo (torch)": [9.0, 27.0, 30.0]}}
MADE_UP = [row for size, times in TIMES.items() for row in paired("w", size, times, ["refimpl direct"])]


def test_a_ratio_is_the_median_of_each_rounds_and_the_largest_size_stands_for_the_work():
    assert [(row["name"], row["peer"], row["seconds"], row["ratio"]) for row in MADE_UP[3:]] == [
        ("refimpl direct", False, 1.0, None), ("MPICH Allreduce", True, 9.0, 8.0), ("gloo (torch)", True, 27.0, 9.0)]
    assert allreduce.ratios(MADE_UP) == {"w 1 KiB": 1.5, "w 1 MiB": 8.0, "w": 8.0}
    shown = table_rows({"rows": MADE_UP})
    assert [line[4] for line in shown] == ["", "1.50 x", "2.00 x", "", "8.00 x", "9.00 x"]


@pytest.mark.thorough
def test_one_machine(capsys, monkeypatch):
    for setting in allreduce.WORKS.values():
        monkeypatch.setitem(setting, "ranks", 3)  # each imports PyTorch
    assert main(["bench", "allreduce", "--sizes", "1KiB", "40KiB", "--seconds", "0.01", "--rounds", "1", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert {(row["work"], row["size"]) for row in result["rows"]} == {
        (work, size) for work in ("machine", "machine-private") for size in ("1 KiB", "40 KiB")}
    for row in result["rows"]:
        assert row["algorithm_bandwidth"] == pytest.approx(row["bytes"] / row["seconds"])
        assert row["bus_bandwidth"] == pytest.approx(4 / 3 * row["algorithm_bandwidth"])  # 2 (N - 1) / N of 3 ranks
    assert {"machine", "machine-private", "machine 1 KiB"} < set(result["ratios"])
    assert set(result["paths"]) == {"machine-private"}


@pytest.mark.thorough
def test_cards_that_differ(cluster_of_any_mpi, capsys):
    assert main(["bench", "allreduce", "--rates", "100mbit,100mbit,50mbit", "--sizes", "1MiB", "--seconds", "0.1",
                 "--rounds", "1", "--json"]) == 0
    rows = {row["name"]: row for row in json.loads(capsys.readouterr().out)["rows"]}
    trees = rows["refimpl canonical-trees:star-2,2,1"]
    assert trees["predicted"] < rows["refimpl ring"]["predicted"] and (
        rows.keys() & {"MPICH Allreduce", "Open MPI Allreduce"})
