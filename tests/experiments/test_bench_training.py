"""bench training: the race as a whole, small. Its peer is that of bench torch, whose losses are compared."""

import json

import pytest

from models.lm import PRESETS
from models.workload import Workload
from refimpl.experiments.bench.training import run as training
from refimpl.transport.launch import launch

SIZES = {**PRESETS["small"], "vocabulary": 2_000, "embedding": 16, "hidden": 24, "projection": 16, "samples": 64}
SMALL = Workload("small", "lm", SIZES, dict(streams=2, window=5))


def test_one_machine_is_raced_and_a_missing_peer_left_out(tmp_path):
    """A directory that holds a broken torch stands for one that is not installed."""
    (tmp_path / "torch.py").write_text("raise ImportError")
    wanted = {"work": "training", "workload": SMALL.to_json(), "seconds": 0.1, "rounds": 1}
    code = (f"import sys; sys.path.insert(0, {str(tmp_path)!r}); "
            "from refimpl.experiments import job; "
            f"job.answer('refimpl.experiments.bench.training.ranks:race_model', {json.dumps(wanted)!r})")
    job = launch(2, ["-c", code], timeout=100, capture=True)
    assert job.returncode == 0, job.stderr
    found = json.loads(job.stdout.splitlines()[-1])
    assert [row["name"] for row in found["rows"]] == ["refimpl hybrid", "refimpl allreduce"]
    assert "torch is not installed" in job.stderr and "card_bytes" not in found["rows"][0]
    assert all(row["words_per_second"] == 2 * 2 * 5 / row["seconds"] for row in found["rows"])


@pytest.mark.thorough
def test_the_cluster_is_raced_and_bytes_stand_beside_the_seconds(cluster, monkeypatch):
    pytest.importorskip("torch")
    monkeypatch.setitem(training.CLUSTER, "machines", 2)
    result = training.run(0.1, 1, cluster=True, workload=SMALL)
    assert {row["name"] for row in result["rows"]} == {"refimpl hybrid", "refimpl allreduce", training.PEER}
    assert all(min(row["card_bytes"]) > 1000 for row in result["rows"])
    assert result["ratios"]["training-cluster"] > 0
    assert sum(result["parts"]["share"].values()) == pytest.approx(1)
    assert 0 < result["touched"]["alpha"]["embedding"] < 0.02


def test_a_rank_that_fails_ends_the_race_with_its_words():
    with pytest.raises(ValueError, match="choose 1 to 2000, the vocabulary"):
        training.run(0.1, 1, workload=Workload("small", "lm", {**SIZES, "samples": 3_000}))
