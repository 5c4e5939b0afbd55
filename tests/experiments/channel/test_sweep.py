"""The channel's sweep: every way gives the right sum, the report, and what it needs."""

from importlib.util import find_spec

import pytest

from refimpl.cli import main
from refimpl.experiments.channel import PARTS, study

SMALL = [1 << 16]


def test_the_command_writes_a_report(tmp_path, capsys, monkeypatch):
    """The ranks check each sum. NIXL takes part where it is installed."""
    pytest.importorskip("grpc")
    monkeypatch.setattr(study, "QUICK", SMALL)
    assert main(["experiment", "channel", "--quick", "--only", "machine", "--output", str(tmp_path / "out")]) == 0
    report = (tmp_path / "out" / "report.md").read_text()
    assert "| 64 KiB |" in report and ("| NIXL | gRPC |" in report) == bool(find_spec("nixl"))
    assert all(way in (tmp_path / "out" / "channel-machine.svg").read_text() for way in PARTS["machine"])


@pytest.mark.thorough
def test_a_step_sends_as_many_tensors_as_messages(tmp_path):
    """Calls and messages are counted anew in each run: what goes through slots no longer goes through MPI."""
    assert main(["experiment", "channel", "--quick", "--only", "step", "--output", str(tmp_path / "out")]) == 0
    rows = [[cell.strip() for cell in line.split("|")[1:-1]]
            for line in (tmp_path / "out" / "report.md").read_text().splitlines() if line.startswith("| ")]
    counts = {row[0]: [float(cell.replace(",", "")) for cell in row[1:]] for row in rows if row[0] in PARTS["step"]}
    assert set(counts) == set(PARTS["step"])
    assert len({count[4] for count in counts.values()}) == 1 and counts["none"][2] > 0 == counts["none"][3]
    assert all(counts[way][3] > 0 and counts[way][2] < counts["none"][2] for way in ("shared", "landing", "rma"))


@pytest.mark.thorough
def test_between_machines_nothing_beats_the_line(cluster, monkeypatch):
    pytest.importorskip("grpc")
    monkeypatch.setattr(study, "QUICK", [8, 4 << 20])
    finding = study.study("network", quick=True)
    parts = [float(word.split()[-1]) for word in finding.sentences[0].split(": ")[1].split(". No")[0].split(", ")]
    assert len(parts) == len(PARTS["network"]) and all(0.5 < part < 1.1 for part in parts)


def test_without_grpcio_the_command_says_what_to_install(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(study, "find_spec", lambda name: None)
    assert main(["experiment", "channel", "--output", str(tmp_path)]) == 1
    assert "grpcio is not installed: pip install grpcio, or refimpl's extra grpc" in capsys.readouterr().err
