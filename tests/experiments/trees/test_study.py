"""Packed trees beside rings on the allocations of a DGX-1: rings by hand, gains, and the report."""

import pytest

from refimpl.cli import main
from refimpl.collectives.links import named_links
from refimpl.experiments.trees import packets
from refimpl.experiments.trees.study import broadcast_rate, find, most_rings


@pytest.mark.parametrize("gpus, rings, broadcast", [
    ((0, 1, 4), 0, 1), ((0, 1, 2, 3), 2, 4), ((0, 1, 4, 5), 1, 2), (range(8), 3, 6)])
def test_rings_and_broadcasts_of_a_dgx_1v(gpus, rings, broadcast):
    links = named_links("dgx-1v").only(list(gpus))
    assert (most_rings(links), broadcast_rate(links)) == (rings, broadcast)


def test_trees_gain_most_where_no_ring_is():
    ringed, ringless = (find(named_links("dgx-1v").only(gpus), 0.4) for gpus in ([0, 1, 2, 3], [0, 3, 4]))
    assert ringed.gains() == (1, 3 / (4 * 4 / 6)) and ringless.gains() == (2 / 0.4, 2 / (0.4 * 3 / 4))
    assert ringless.canonical == ringless.packing.rate == 2


@pytest.mark.thorough
def test_trees_over_machines_that_are_wired_as_an_allocation(cluster, monkeypatch):
    monkeypatch.setattr(packets, "ELEMENTS", 1 << 18)
    monkeypatch.setattr(packets, "MACHINES", ("dgx-1p",))
    finding = packets.study(quick=True)
    [(name, best, _, part, *_)] = finding.tables[0].rows
    assert name == "dgx-1p:0,1,4" and best == "0.17" and 0.5 < float(part) < 1.2


def test_the_command_writes_a_report(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("refimpl.experiments.trees.study.SEGMENTS", 2)
    assert main(["experiment", "trees", "--quick", "--only", "dgx-1p", "--output", str(tmp_path / "out")]) == 0
    assert "No ring goes through 5 of the allocations." in capsys.readouterr().out
    report = (tmp_path / "out" / "report.md").read_text()
    assert "## 9 allocations of a DGX-1P" in report and "| allreduce | 1.00 | 1.97 | 3.20 | up to 8 |" in report
    assert (tmp_path / "out" / "dgx-1p.svg").exists()
