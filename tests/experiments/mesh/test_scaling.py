"""The published networks' sizes, the fit, and the report."""

from dataclasses import replace

import pytest

from refimpl.cli import main
from refimpl.experiments.mesh.scaling import CLAIMS, FITTED, NETWORKS, everywhere, fit, study, together
from refimpl.plan.layers.sent import parameters


def test_the_published_networks_have_the_published_sizes():
    assert {name: sum(map(parameters, layers)) for name, layers in NETWORKS.items()} == {
        "VGG-A": 132_863_336, "VGG-16": 138_357_544, "OverFeat-FAST": 145_920_872, "7-layer DNN": 45_122_648}
    assert sum(layer.products for layer in NETWORKS["OverFeat-FAST"]) // 10**6 == 2801  # "2810 million connections"


def test_one_efficiency_is_fitted():
    for predicted in (everywhere, together):
        efficiency = fit(predicted, FITTED)
        assert predicted(FITTED, efficiency) == pytest.approx(FITTED.times)
        assert predicted(CLAIMS[1], efficiency) != pytest.approx(CLAIMS[1].times, rel=0.05)  # it is not fitted
    with pytest.raises(ValueError, match="VGG-A on 64 nodes: no efficiency from 0.001 to 1000 predicts 65 x"):
        fit(everywhere, replace(FITTED, times=65.0))  # more than there are nodes


def test_predictions_stand_beside_the_abstract():
    finding = study()
    assert [row[4] for row in finding.tables[0].rows] == ["53", "90", "42", "6.5", "14"]
    assert finding.tables[2].rows[0][2:4] == ["2.00", "2"]
    assert finding.tables[1].rows[0] == ["VGG-A", "256", "64", "77.6", "4.4", "12.7", "84.0"]
    assert any("is no efficiency" in said for said in finding.sentences)


def test_the_command_runs_a_part_and_refuses_what_is_no_directory(tmp_path, capsys):
    assert main(["experiment", "mesh", "--only", "scaling", "--quick", "--output", str(tmp_path / "out")]) == 0
    assert "53.0 (fitted)" in capsys.readouterr().out
    report = (tmp_path / "out" / "report.md").read_text()
    assert "## Scaling" in report and "| VGG-A | 256 | 64 |" in report
    (tmp_path / "file").write_text("")
    assert main(["experiment", "mesh", "--output", str(tmp_path / "file" / "out")]) == 1
    assert "cannot make this directory" in capsys.readouterr().err
