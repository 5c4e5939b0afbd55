"""The peer of bench step trains the very model that we train: the same losses and parameters, step by step."""

from dataclasses import replace

import numpy as np
import pytest
from mpi4py import MPI

from kernels.random import key_of
from models.lm import PRESETS
from models.workload import Workload
from refimpl.training.options import Options
from refimpl.training.trainer import Trainer

torch = pytest.importorskip("torch")

from refimpl.experiments.bench.peers.torch_lm import Drawn, TorchLanguageModel, work  # noqa: E402
from refimpl.experiments.bench.peers.torch_replica import SEED, Replica  # noqa: E402

STEPS = 4
WORKLOAD = Workload("tiny", "lm", {**PRESETS["tiny"], "keep": 1.0, "dtype": "float64"}, dict(streams=3))
# A step's sums have at most 20 * 3 * (50 + 20) products, 20 cells deep: fewer than 2**15 roundings of half an ULP each,
# on terms below 2**3. Adagrad divides by at least 1, so it passes on at most ``rate`` of a gradient's error: those of
# earlier steps fade. An error in the model is 10**6 times the bound (see the test in which it shows).
BOUND = 2.0 ** (15 + 3 - 53)


class AsOurs(Drawn):
    """Data with the candidates that our trainer draws."""

    def key(self, step, index):
        return key_of(key_of(SEED, "microbatch", step, index), "candidates")


def peer_of(clip_norm):
    """Return PyTorch's training without dropout."""
    model, clipped = WORKLOAD.make_model(), replace(work(WORKLOAD), options={"clip_norm": clip_norm})
    return Replica(clipped, AsOurs(WORKLOAD.make_data(1), model.samples, model.vocabulary))


def train_both(clip_norm, peers_clip_norm):
    """Return (our losses, the peer's losses, our trainer, the peer's module) after STEPS steps without dropout."""
    options = Options(**{**WORKLOAD.entry.optimizer, "clip_norm": clip_norm}, seed=SEED)
    ours = Trainer.open(WORKLOAD.make_model(), WORKLOAD.make_data(1), options, MPI.COMM_SELF)
    theirs = peer_of(peers_clip_norm)
    losses = [(ours.train_step()["loss"], theirs.step()) for _ in range(STEPS)]
    return *np.array(losses).T, ours, theirs.module


@pytest.mark.parametrize("clip_norm", [0.1, 1e9])
def test_losses_and_parameters_agree_step_by_step(clip_norm):
    ours, theirs, trainer, peer = train_both(clip_norm, clip_norm)
    assert np.abs(ours - theirs).max() <= BOUND * np.abs(ours).max()
    values = {v.name: trainer.parameters.collect(v.name) for v in trainer.model.variables}
    expected = TorchLanguageModel(trainer.model, values).state_dict()
    for name, value in peer.state_dict().items():
        assert (value - expected[name]).abs().max() <= BOUND * expected[name].abs().max(), name


def test_another_optimizer_step_would_show():
    ours, theirs, _, _ = train_both(0.1, 0.11)
    assert ours[0] == pytest.approx(theirs[0], rel=BOUND)  # the first loss is of the same parameters
    assert (np.abs(ours - theirs)[1:] > BOUND * np.abs(ours).max()).all()


def test_gradients_of_sparse_parameters_are_sparse_and_clipped():
    trainer = peer_of(clip_norm=0.25)
    trainer.step()
    sparse = {name for name, p in trainer.module.named_parameters() if p.grad is not None and p.grad.is_sparse}
    assert sparse == {"embedding.weight", "softmax_weight.weight", "softmax_bias.weight"}
    norm = sum(float((p.grad.to_dense()**2).sum()) for p in trainer.parameters) ** 0.5
    assert norm == pytest.approx(0.25, rel=BOUND)


def test_a_model_of_two_layers_is_refused():
    model = WORKLOAD.make_model(layers=2)
    with pytest.raises(ValueError, match="one LSTM layer"):
        TorchLanguageModel(model, {v.name: v.initial_value(0) for v in model.variables})
