"""bench consistency: its rows and ratios; PyTorch's parameter server by rows trains as its optimizer on tables."""

from dataclasses import replace

import pytest
from mpi4py import MPI

from models.lm import PRESETS
from models.workload import Workload
from refimpl.experiments.consistency.race import describe
from refimpl.experiments.consistency.race_ranks import OURS, rows_of
from refimpl.transport import Communicator

DATA = Workload("tiny", "lm", PRESETS["tiny"], dict(streams=3))


def test_ratios_are_of_pairs_from_worst_to_best():
    rows = rows_of("consistency", {OURS: [1.0, 2.0, 4.0], "synchronous": [3.0, 2.0, 8.0]}, 640)
    assert [row["words_per_second"] for row in rows] == [320.0, 640 / 3] and rows[0]["ratios"] is None
    assert rows[1]["ratio"] == 2.0 and rows[1]["ratios"] == (1.0, 3.0)
    lines = describe({"rows": rows, "written": 0.0012})
    assert "consistency: pair by pair 1.000 to 3.000 x" in lines and "takes 0.12 % of a training" in "\n".join(lines)


def test_one_trainer_of_the_parameter_server_is_the_optimizer_alone(monkeypatch):
    torch = pytest.importorskip("torch")
    from refimpl.experiments.bench.peers import torch_rpc
    from refimpl.experiments.bench.peers.torch_lm import work
    from refimpl.experiments.bench.peers.torch_replica import Replica

    monkeypatch.setattr(torch_rpc.rpc, "rpc_sync", lambda to, function, given: function(*given))
    unclipped = replace(work(DATA), options={})
    trainer = torch_rpc.RpcTrainer(unclipped, unclipped.data(1), Communicator.of(MPI.COMM_SELF))
    losses = [loss for *_, loss, _ in trainer.train(4)]
    alone = Replica(unclipped, unclipped.data(1))
    assert losses == pytest.approx([alone.step() for _ in range(4)], rel=1e-6) and len(set(losses)) == 4
    served, whole = torch_rpc._here[0].parameters, dict(alone.module.named_parameters())
    assert all(torch.allclose(served[name], whole[name], rtol=1e-5, atol=1e-7) for name in served)
