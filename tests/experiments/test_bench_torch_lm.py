"""The peer of bench step trains the very model that we train: the same losses and parameters, step by step."""

import numpy as np
import pytest
from mpi4py import MPI

from kernels.random import key_of
from models.candidates import draw_candidates
from models.lm import PRESETS, LanguageModel
from models.workload import Workload
from refimpl.training.options import Options
from refimpl.training.trainer import Trainer

torch = pytest.importorskip("torch")

from refimpl.experiments.bench.peers.torch_lm import TorchLanguageModel, TorchTrainer  # noqa: E402

STEPS, DATA = 4, Workload("tiny", "lm", PRESETS["tiny"], dict(streams=3))
# A step's sums have at most 20 * 3 * (50 + 20) products, 20 cells deep: fewer than 2**15 roundings of half an ULP each,
# on terms below 2**3. Adagrad divides by at least 1, so it passes on at most ``rate`` of a gradient's error: those of
# earlier steps fade. An error in the model is 10**6 times the bound (see the test in which it shows).
BOUND = 2.0 ** (15 + 3 - 53)


def language_model(**sizes):
    return LanguageModel(**{**PRESETS["tiny"], "keep": 1.0, "dtype": "float64", **sizes})


def train_both(clip_norm, peers_clip_norm):
    """Return (our losses, the peer's losses, our trainer, the peer) after STEPS steps without dropout."""
    model, data = language_model(), DATA.make_data(1)
    options = Options(optimizer="adagrad", learning_rate=0.2, clip_norm=clip_norm, seed=3)
    ours = Trainer.open(model, data, options, MPI.COMM_SELF)
    peer = TorchLanguageModel(model, {v.name: v.initial_value(options.seed) for v in model.variables})
    theirs = TorchTrainer(peer, options.learning_rate, peers_clip_norm)
    losses = [], []
    for number in range(STEPS):
        key = key_of(key_of(options.seed, "microbatch", number, 0), "candidates")
        batch = data.microbatch(number, 0)
        candidates = draw_candidates(key, model.samples, model.vocabulary)
        losses[1].append(theirs.step(batch.inputs, batch.targets, candidates))
        losses[0].append(ours.train_step()["loss"])
    return np.array(losses[0]), np.array(losses[1]), ours, peer


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
    model, data = language_model(), DATA.make_data(1)
    peer = TorchLanguageModel(model, {v.name: v.initial_value(0) for v in model.variables})
    batch = data.microbatch(0, 0)
    trainer = TorchTrainer(peer, 0.2, clip_norm=0.25)
    trainer.step(batch.inputs, batch.targets, draw_candidates(0, model.samples, model.vocabulary))
    sparse = {name for name, p in peer.named_parameters() if p.grad is not None and p.grad.is_sparse}
    assert sparse == {"embedding.weight", "softmax_weight.weight", "softmax_bias.weight"}
    norm = sum(float((p.grad.to_dense()**2).sum()) for p in trainer.parameters) ** 0.5
    assert norm == pytest.approx(0.25, rel=BOUND)


def test_a_model_of_two_layers_is_refused():
    model = language_model(layers=2)
    with pytest.raises(ValueError, match="one LSTM layer"):
        TorchLanguageModel(model, {v.name: v.initial_value(0) for v in model.variables})
