"""Simulated against measured: one row for each algorithm and size, errors as defined, and a wrong prediction shows."""

import json
from types import SimpleNamespace

import pytest

from refimpl.collectives import ALGORITHMS
from refimpl.experiments import validate_simulation
from refimpl.experiments import job
from refimpl.transport.launch import launch


@pytest.fixture
def one_machine(monkeypatch):
    """Have the ranks of the cluster run on this machine, without its network."""
    def run_on_cluster(machines, each, rate, arguments, timeout=None, capture=False, **_):
        return launch(machines * each, arguments, capture=capture)

    monkeypatch.setattr(job, "run_on_cluster", run_on_cluster)


def answer(monkeypatch, **ended):
    monkeypatch.setattr(job, "run_on_cluster", lambda *_, **__: SimpleNamespace(**ended))


@pytest.mark.thorough
@pytest.mark.parametrize("ranks", [2, 3])
def test_every_algorithm_is_measured_and_predicted_that_serves_the_ranks(one_machine, ranks):
    found = validate_simulation.validate(clusters=[(ranks, 1)], sizes=[4096, 65536])
    wanted = [(name, size) for name in ALGORITHMS if ranks == 2 or name != "halving-doubling" for size in (4096, 65536)]
    assert [(row["algorithm"], row["bytes"]) for row in found["rows"]] == wanted
    assert all(row["ranks"] == ranks and row["predicted"] > 0 for row in found["rows"])
    assert all(row["measured"] > 0 <= min(row["costs"]) < max(row["costs"]) for row in found["rows"])
    json.dumps(found, allow_nan=False)


def test_errors_are_relative_to_what_was_measured(monkeypatch):
    row = {"algorithm": "ring", "machines": 4, "ranks": 4, "measured": 2.0, "costs": [2e-4, 3e-6, 5e-10],
           "burst": 131072.0}
    answer(monkeypatch, returncode=0, stdout=json.dumps([
        {**row, "predicted": p, "bytes": size} for p, size in ((2.0, 8), (3.0, 4096), (6.0, 8))]))
    found = validate_simulation.validate(clusters=[(4, 1)])
    assert [row["error"] for row in found["rows"]] == [0, 0.5, 2] and found["median_error"] == 0.5
    assert validate_simulation.describe(found).splitlines()[-4:] == [
        "8 B: 2 predictions; error 100.0% (median), 180.0% (90th percentile), 200.0% (largest)",
        "4 KiB: 1 predictions; error 50.0% (median), 50.0% (90th percentile), 50.0% (largest)",
        "all sizes: 3 predictions; error 50.0% (median), 170.0% (90th percentile), 200.0% (largest)",
        "as calibrated, 4 ranks on 4 machines at 200mbit: bursts of 131,072 bytes; processor time 200 us a call, "
        "3.0 us a message, 0.50 ns a byte"]


def test_costs_are_found_again_and_none_is_negative():
    calls = [((1, messages, size), 2e-4 + 3e-6 * messages + 5e-10 * size)
             for messages, size in ((8, 1000), (24, 1000), (8, 100_000))]
    assert validate_simulation.fit(calls) == pytest.approx([2e-4, 3e-6, 5e-10])
    assert min(validate_simulation.fit([*calls, ((1, 24, 900_000), 1e-4)])) == 0


def test_a_job_that_fails_is_an_error(monkeypatch):
    answer(monkeypatch, returncode=3, stderr="no such algorithm")
    with pytest.raises(ValueError, match="validate_simulation:main ended with status 3:\nno such algorithm"):
        validate_simulation.validate()

    def refuse(*_, **__):
        raise job.ClusterError("no namespaces here")

    monkeypatch.setattr(job, "run_on_cluster", refuse)
    with pytest.raises(ValueError, match="no namespaces here"):
        validate_simulation.validate()
