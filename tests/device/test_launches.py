"""How often a training step asks something of a GPU: launches cost the host, however little they do."""

import numpy as np
from mpi4py import MPI

from models.cnn import ConvNet
from models.data import Examples, TokenStreams
from models.data.text.synthetic import load_synthetic
from models.lm import LanguageModel
from refimpl.training.options import Options
from refimpl.training.trainer import Trainer


def launches_of(standin, model, data, **options):
    """Return kind -> how many launches the third step asks for."""
    trainer = Trainer.open(model, data, Options(architecture="hybrid", device="cuda", **options), MPI.COMM_SELF)
    for _ in range(2):
        trainer.train_step()
    with standin.launching() as launches:
        trainer.train_step()
    return launches.by_kind()


def lm_launches(standin, time):
    sizes = dict(embedding=8, hidden=12, projection=8, samples=16)
    corpus = load_synthetic("100", tokens=time * 4 * 4 + 1, heldout_tokens=0)
    return launches_of(standin, LanguageModel(vocabulary=100, layers=1, keep=0.9, **sizes),
                       TokenStreams(corpus.train, 1, 4, time), optimizer="adagrad", learning_rate=0.2, clip_norm=10.0)


def test_a_time_step_of_the_language_model_costs_six_launches(standin):
    few, many = lm_launches(standin, 4), lm_launches(standin, 10)
    assert sum(many.values()) - sum(few.values()) == 6 * 6
    assert many["product"] == 4 * 10 + 8 and sum(many.values()) <= 141
    assert many["to_host"] == 1


def test_launches_of_the_network_for_images(standin):
    rng = np.random.default_rng(0)
    data = Examples(rng.integers(0, 256, (32, 8, 8, 3)).astype(np.uint8), rng.integers(0, 10, 32), 1, 8)
    found = launches_of(standin, ConvNet((8, 8, 3), 10, width=4, blocks=(1, 1, 1), augment=False), data,
                        optimizer="momentum", learning_rate=0.1)
    assert sum(found.values()) <= 211 and found["product"] == 3 * 9 - 1 + 3
