"""bench training: the peer on several ranks trains the very model that we train; and the race as a whole, small."""

import json

import pytest

from models.lm import PRESETS
from models.workload import Workload
from refimpl.experiments.bench.training import run as training
from refimpl.experiments.cluster import missing
from refimpl.transport.launch import launch

SIZES = {**PRESETS["small"], "vocabulary": 2_000, "embedding": 16, "hidden": 24, "projection": 16, "samples": 64}
SMALL = Workload("small", "lm", SIZES, dict(streams=2, window=5))
STEPS = 4
# As in test_bench_torch_lm, and a sum over ranks more: sums of fewer than 2**16 roundings of half an ULP, on terms
# below 2**3. Losses of the second and later steps depend on every gradient that travelled.
BOUND = 2.0 ** (16 + 3 - 53)

BOTH = """
import json
from dataclasses import replace
import numpy as np
from kernels.random import key_of
from models.candidates import draw_candidates
from models.lm import PRESETS
from models.workload import Workload
from refimpl.experiments.bench.peers import import_torch
from refimpl.experiments.bench.peers import join_gloo
from refimpl.experiments.bench.training.ranks import options_of
from refimpl.training.trainer import Trainer
from refimpl.transport import Communicator
communicator, torch = Communicator.of(), import_torch()
workload = Workload("tiny", "lm", {**PRESETS["tiny"], "keep": 1.0}, dict(streams=3, window=20))
options = replace(options_of(workload), seed=3, clip_norm=0.1)
join_gloo(torch, communicator)
from refimpl.experiments.bench.peers.torch_lm import TorchTrainer, distributed
model, data = workload.make_model(dtype="float64"), workload.make_data(communicator.size)
ours = Trainer.open(model, data, options, communicator)
peers = [distributed(model, {v.name: v.initial_value(options.seed) for v in model.variables}) for _ in range(2)]
theirs = [TorchTrainer(peer, options.learning_rate, norm) for peer, norm in zip(peers, (0.1, 0.11))]
losses = []
for step in range(%d):
    key = key_of(key_of(options.seed, "microbatch", step, communicator.rank), "candidates")
    batch, candidates = data.microbatch(step, communicator.rank), draw_candidates(key, model.samples, model.vocabulary)
    mine = [trainer.step(batch.inputs, batch.targets, candidates) for trainer in theirs]
    losses.append((ours.train_step()["loss"], *communicator.share(np.array(mine), "bench").mean(axis=0).tolist()))
sparse = [n for n, p in peers[0].named_parameters() if p.grad is not None and p.grad.is_sparse]
if communicator.rank == 0:
    print(json.dumps({"losses": losses, "sparse": sparse}))
""" % STEPS


@pytest.mark.thorough
def test_the_peer_trains_the_same_model_on_several_ranks():
    """And one that clips by another norm does not: that shows in the second loss, the first is of the same values."""
    pytest.importorskip("torch")
    job = launch(2, ["-c", BOTH], timeout=100, capture=True)
    assert job.returncode == 0, job.stderr
    found = json.loads(job.stdout.splitlines()[-1])
    assert len(found["sparse"]) == 3
    for step, (ours, theirs, another) in enumerate(found["losses"]):
        assert abs(ours - theirs) <= BOUND * ours
        assert (abs(ours - another) <= BOUND * ours) == (step == 0)


def test_one_machine_is_raced_and_a_missing_peer_left_out(tmp_path):
    """A directory that holds a broken torch stands for one that is not installed."""
    (tmp_path / "torch.py").write_text("raise ImportError")
    wanted = {"work": "training", "workload": SMALL.to_json(), "seconds": 0.1, "rounds": 1}
    code = (f"import sys; sys.path.insert(0, {str(tmp_path)!r}); "
            "from refimpl.experiments.bench import job; from refimpl.experiments.bench.training import ranks; "
            "job.answer(ranks.main)")
    job = launch(2, ["-c", code, json.dumps(wanted)], timeout=100, capture=True)
    assert job.returncode == 0, job.stderr
    found = json.loads(job.stdout.splitlines()[-1])
    assert [row["name"] for row in found["rows"]] == ["refimpl hybrid", "refimpl allreduce"]
    assert "torch is not installed" in job.stderr and "card_bytes" not in found["rows"][0]
    assert all(row["words_per_second"] == 2 * 2 * 5 / row["seconds"] for row in found["rows"])


@pytest.mark.thorough
def test_the_cluster_is_raced_and_bytes_stand_beside_the_seconds(monkeypatch):
    if reason := missing():
        pytest.skip(f"no cluster here: {reason}")
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
