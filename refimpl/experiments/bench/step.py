"""Bench: a training step of the language model on one rank, through the trainer.

lm-step:      against the same model and step in PyTorch (``torch_lm``).
microbatches: V = 8 microbatches against one big batch of the same words: what the fixed tree of gradients costs. The
              smaller a microbatch, the more: narrow products, and a gradient of every weight to add up.
"""

from models.data import TokenStreams
from models.data.text.synthetic import load_synthetic
from models.lm import PRESETS, LanguageModel
from refimpl.experiments.bench.peers import import_torch
from refimpl.experiments.bench.timing import Row, race
from refimpl.training.options import Options
from refimpl.training.trainer import Trainer
from refimpl.transport import Communicator

PRESET, WINDOW, STREAMS = "small", 20, 64
MICROBATCHES = 8
MICROBATCH_STREAMS = {  # work -> streams of a microbatch
    "microbatches": STREAMS,
    "microbatches-32": 32,
    "microbatches-8": 8,  # as ``train lm`` has them if nothing else is asked for
    "microbatches-128": 128,  # a worker's batch in the authors' experiments (docs/paper.md, Models)
}
STEPS = 16  # an epoch; then the same windows come again
OPTIONS = Options(architecture="hybrid", optimizer="adagrad", learning_rate=0.2, clip_norm=10.0)


def run(seconds: float = 10.0, rounds: int = 7, preset: str = PRESET) -> list[Row]:
    """Time every work, ``seconds`` each; the caller has set the number of BLAS threads to one. Local."""
    rows = race_torch(seconds, rounds, preset)
    for work, streams in MICROBATCH_STREAMS.items():
        rows += race_one_batch(work, streams, seconds, rounds, preset)
    return rows


def race_torch(seconds, rounds=7, preset=PRESET) -> list[Row]:
    """Race one step of V = 1 microbatch against PyTorch. Local."""
    model, data = LanguageModel(**PRESETS[preset]), token_streams(PRESETS[preset]["vocabulary"], 1, STREAMS)
    ours = {"refimpl": Trainer(model, data, OPTIONS, Communicator.alone()).train_step}
    size = f"{preset}, {STREAMS} streams x {WINDOW} words, {model.samples} candidates of {model.vocabulary}"
    return race("lm-step", size, ours, torch_peer(model, data), seconds, rounds)


def race_one_batch(work, streams, seconds, rounds=7, preset=PRESET) -> list[Row]:
    """Race one step of V microbatches against V = 1 with all their streams. Local."""
    cuts, sizes = ((MICROBATCHES, streams), (1, MICROBATCHES * streams)), PRESETS[preset]
    many, one = (Trainer(LanguageModel(**sizes), token_streams(sizes["vocabulary"], *cut), OPTIONS,
                         Communicator.alone()).train_step for cut in cuts)
    size = f"{preset}, {MICROBATCHES} x {streams} streams x {WINDOW} words"
    return race(work, size, {f"refimpl V = {MICROBATCHES}": many}, {"one big batch": one}, seconds, rounds)


def token_streams(vocabulary: int, microbatches: int, streams: int, window: int = WINDOW, steps: int = STEPS):
    """Return an epoch of ``steps`` full windows of the synthetic language. Local."""
    corpus = load_synthetic(str(vocabulary), tokens=microbatches * streams * window * steps + 1, heldout_tokens=0)
    return TokenStreams(corpus.train, microbatches, streams, window)


def torch_peer(model, data) -> dict:
    """Return {"torch": callable} that does the same step on the same batches, {} where PyTorch is missing. Local."""
    if import_torch() is None:
        return {}
    from refimpl.experiments.bench.peers.torch_lm import LogUniformSampler, TorchLanguageModel, TorchTrainer

    peer = TorchLanguageModel(model, {v.name: v.initial_value(OPTIONS.seed) for v in model.variables})
    trainer = TorchTrainer(peer, OPTIONS.learning_rate, OPTIONS.clip_norm)
    return {"torch": trainer.stepper(data, LogUniformSampler(model.samples, model.vocabulary))}
