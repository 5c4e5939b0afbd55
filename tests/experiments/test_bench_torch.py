"""bench torch: the race as a whole, small; both sides train alike, and it shows where they do not."""

import sys
from dataclasses import replace
from pathlib import Path

import pytest
from mpi4py import MPI

from refimpl.cli import main
from refimpl.experiments.bench.training import HYBRID, PEER, modules as bench

torch = pytest.importorskip("torch")

from refimpl.experiments.bench.peers.torch_replica import DdpReplica  # noqa: E402
from refimpl.experiments.bench.training.works import recommender, work_of  # noqa: E402
from refimpl.torch import TorchModel  # noqa: E402
from refimpl.training.options import Options  # noqa: E402
from refimpl.training.trainer import Trainer  # noqa: E402


@pytest.mark.thorough
def test_the_race_is_run_and_told(monkeypatch):
    """One work with a table; that the others' sides train alike: below."""
    for work in ("recommender", "cnn"):
        monkeypatch.delitem(bench.WORKS, work)
    result = bench.run(quick=True)
    assert [row["name"] for row in result["rows"]] == [HYBRID, PEER]
    assert list(result["ratios"]) == ["torch-lm-quick"]
    for row in result["rows"]:
        assert row["seconds"] > 0 and row["compute_seconds"] > 0 and "card_bytes" not in row
        assert not row["peer"] or row["ratios"][0] <= row["ratio"] <= row["ratios"][1]
    assert result["alpha"]["lm"]["embedding.weight"] < 0.1
    lines = "\n".join(bench.describe(result))
    assert lines.count("pair by pair") == 1 and "torch-lm-quick: rows" in lines and "words/s" in lines


@pytest.mark.thorough
def test_modules_of_other_packages_are_raced():
    for package in bench.PACKAGES:
        pytest.importorskip(package, reason="the extra foreign is not installed")
    result = bench.run(quick=True, foreign=True)
    assert list(result["ratios"]) == [f"torch-{work}-quick" for work in bench.FOREIGN]


@pytest.mark.thorough
def test_the_cluster_is_raced_and_bytes_stand_beside_the_seconds(cluster):
    result = bench.run(quick=True, cluster=True)
    assert all(min(row["card_bytes"]) > 1000 for row in result["rows"])
    assert all(sum(found["share"].values()) == pytest.approx(1) for found in result["parts"].values())
    assert "bytes alone would give" in "\n".join(bench.describe(result))


@pytest.fixture(scope="module")
def gloo():
    """A process group of this process alone."""
    torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
    yield
    torch.distributed.destroy_process_group()


@pytest.mark.parametrize("name", [*bench.WORKS, "tagger", "transformer"])
def test_both_train_alike_and_another_rate_shows(name, gloo):
    """The bound holds for twice as many steps as are looked at; a peer with another learning rate is beyond it."""
    work = work_of(name, small=True)
    wrong = replace(work, optimizer=lambda parameters: torch.optim.SGD(parameters, lr=1.0))
    data, steps = work.data(1), 2 * bench.ALIKE_STEPS
    trainer = Trainer.open(TorchModel(work.make(), work.loss), data, Options(**work.options), MPI.COMM_SELF)
    replicas = [DdpReplica(one, data, 0) for one in (work, wrong)]
    ours = [trainer.train_step()["loss"] for _ in range(steps)]
    theirs, others = ([replica.step() for _ in range(steps)] for replica in replicas)
    assert max(bench.deviation(name, {HYBRID: ours, PEER: theirs})) <= bench.ALIKE
    with pytest.raises(ValueError, match=f"the times cannot be compared: in step 2 of {name} the losses of"):
        bench.deviation(name, {HYBRID: ours, PEER: others})


def test_what_is_missing_is_told(monkeypatch, capsys):
    monkeypatch.setattr("refimpl.experiments.bench.training.works.EXAMPLE", Path("nowhere/torch_recommender.py"))
    with pytest.raises(ValueError, match="nowhere/torch_recommender.py is missing.*repository"):
        recommender(small=True)
    monkeypatch.setitem(sys.modules, "refimpl.torch", None)
    assert main(["bench", "torch"]) == 1
    assert "bench torch: " in capsys.readouterr().err
    monkeypatch.undo()
    monkeypatch.setitem(sys.modules, "torchfm", None)
    assert main(["bench", "torch", "--foreign"]) == 1
    assert "pip install -e '.[foreign]'" in capsys.readouterr().err
