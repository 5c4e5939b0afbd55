"""The works of ``bench torch``, for both sides: a module, its loss, its data and its optimizer.

lm:          the peer's language model of ``bench training``, with sparse tables
recommender: that of docs/examples/torch_recommender.py, of four tables
cnn:         the residual network of ``bench step``, all dense

With --foreign, others have written and tuned the modules:

torchfm:     DeepFM of torchfm: two tables for all fields together, of 16 columns and of one
deepctr:     DeepFM of deepctr-torch: two tables for each of 8 fields, looked up in a matrix of floats
tagger:      words and bags of letters, then an LSTM in both directions
transformer: nn.TransformerEncoder with dropout: one table, the rest is dense
gpt2:        GPT-2 of transformers. Its words are tied to the output layer, and so dense

For DDP, tables have the kind of gradients with which it is faster here.
"""

import importlib.util
from functools import partial
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import TensorDataset

from models.lm import PRESETS
from models.registry import workloads_for
from models.workload import Workload
from refimpl.experiments.bench.peers import peer_work
from refimpl.experiments.bench.peers.torch_replica import Work, adagrad, seeded
from refimpl.torch import TorchData

EXAMPLE = Path(__file__).parents[4] / "docs" / "examples" / "torch_recommender.py"
SMALL = {"lm": Workload("small", "lm", {**PRESETS["tiny"], "vocabulary": 500}, dict(streams=2, window=5)),
         "cnn": Workload("small", "cnn", dict(width=4, blocks=(1,)), dict(images=2, image_size=8))}
CNN = Workload("torch", "cnn", dict(width=32, blocks=(1, 1, 1)), dict(images=16, image_size=32))
FIELDS = (100_000, 20_000, 20_000, 5000, 1000, 200, 50, 10)
WORDS, LETTERS, TAGS, LENGTH = 20_000, 60, 12, 20


def work_of(name: str, small: bool = False) -> Work:
    """Return a work by its name. Local. small: only to see that it runs."""
    if name == "recommender":
        return recommender(small)
    if name in MODULES:
        return foreign_work(name, small)
    return peer_work(SMALL[name] if small else CNN if name == "cnn" else workloads_for("training")[0])


def recommender(small: bool) -> Work:
    """Return the work of the example's recommender, with the example's rate. Local.

    Raises ValueError if the file of the example is missing.
    """
    if not EXAMPLE.exists():
        raise ValueError(f"{EXAMPLE} is missing, and bench torch trains its recommender: run it in a clone of the "
                         "repository")
    spec = importlib.util.spec_from_file_location("torch_recommender", EXAMPLE)
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    data, size = (example.Clicks(1024), 16) if small else (example.Clicks(), 512)
    return Work(
        f"{size} examples, visitors {example.VISITORS}, items {example.ITEMS}, width 32", "examples",
        seeded(example.Recommender), lambda module, batch: module(batch.inputs, batch.targets),
        lambda microbatches: TorchData(data, microbatches, size, collate=example.itself),
        dict(optimizer="adagrad", learning_rate=0.05), partial(adagrad, 0.05), ("countries",))


def popular(seed, rows, *shape):
    """Return int64 ids below ``rows``, of which few are frequent. Local."""
    return (rows * torch.rand(*shape, generator=torch.Generator().manual_seed(seed)) ** 3).long()


def clicks(count):
    """Return a dataset of (ids of the fields, whether it was clicked). Local."""
    fields = torch.stack([popular(n, rows, count) for n, rows in enumerate(FIELDS)], 1)
    return TensorDataset(fields, (fields.sum(1) % 7 < 3).float())


def clicks_of_floats(count):
    """Return ``clicks`` with ids as floats, which deepctr-torch needs. Local."""
    fields, clicked = clicks(count).tensors
    return TensorDataset(fields.float(), clicked)


def texts(count):
    """Return a dataset of ((words, a bag of 6 letters for each), tag of each word). Local."""
    words = popular(1, WORDS, count, LENGTH)
    letters = popular(2, LETTERS, WORDS, 6)[words]
    return TensorDataset(torch.cat([words[..., None], letters], 2), words % TAGS)


def torchfm():
    """Return DeepFM of torchfm. Local."""
    from torchfm.model.dfm import DeepFactorizationMachineModel

    return DeepFactorizationMachineModel(FIELDS, 16, (64, 32), dropout=0.2)


def deepctr():
    """Return DeepFM of deepctr-torch. Local."""
    from deepctr_torch.inputs import SparseFeat
    from deepctr_torch.models import DeepFM

    columns = [SparseFeat(f"field{n}", rows, 16) for n, rows in enumerate(FIELDS)]
    return DeepFM(columns, columns, dnn_hidden_units=(64, 32))


def gpt2():
    """Return a small GPT-2 of transformers. Local."""
    from transformers import GPT2Config, GPT2LMHeadModel

    return GPT2LMHeadModel(GPT2Config(vocab_size=1000, n_positions=LENGTH, n_embd=128, n_layer=2, n_head=4,
                                      use_cache=False))


class Tagger(nn.Module):
    """Return a score of each tag for each word."""

    def __init__(self):
        super().__init__()
        self.words, self.letters = nn.Embedding(WORDS, 64, sparse=True), nn.EmbeddingBag(LETTERS, 16)
        self.lstm, self.tags = nn.LSTM(80, 64, batch_first=True, bidirectional=True), nn.Linear(128, TAGS)

    def forward(self, texts):
        letters = self.letters(texts[..., 1:].flatten(0, 1)).unflatten(0, texts.shape[:2])
        return self.tags(self.lstm(torch.cat([self.words(texts[..., 0]), letters], 2))[0])


class WordEncoder(nn.Module):
    """Return a score of each tag for each word."""

    def __init__(self, width=128):
        super().__init__()
        self.words, self.places = nn.Embedding(WORDS, width, sparse=True), nn.Parameter(torch.zeros(LENGTH, width))
        layer = nn.TransformerEncoderLayer(width, 4, 2 * width, batch_first=True)
        self.layers, self.tags = nn.TransformerEncoder(layer, 2), nn.Linear(width, TAGS)

    def forward(self, texts):
        return self.tags(self.layers(self.words(texts[..., 0]) + self.places))


def click_loss(module, batch):
    """Return the cross entropy of clicks, summed. Local."""
    scores = module(batch.inputs)  # probabilities: (n,), deepctr's (n, 1)
    return functional.binary_cross_entropy(scores.reshape(-1), batch.targets, reduction="sum")


def tag_loss(module, batch):
    """Return the cross entropy of each word's tag, summed. Local."""
    return functional.cross_entropy(module(batch.inputs).flatten(0, 1), batch.targets.flatten(), reduction="sum")


def next_word_loss(module, batch):
    """Return the cross entropy of each next word, summed. Local."""
    words = batch.inputs[..., 0] % 1000
    scores = module(input_ids=words).logits[:, :-1]
    return functional.cross_entropy(scores.flatten(0, 1), words[:, 1:].flatten(), reduction="sum")


MODULES = {"torchfm": (torchfm, click_loss, clicks, 256), "deepctr": (deepctr, click_loss, clicks_of_floats, 256),
           "tagger": (Tagger, tag_loss, texts, 16), "transformer": (WordEncoder, tag_loss, texts, 16),
           "gpt2": (gpt2, next_word_loss, texts, 16)}
"""Name -> module, loss, dataset of so many examples, examples of a rank's microbatch."""


def foreign_work(name: str, small: bool = False) -> Work:
    """Return a work by its name. Local. small: only to see that it runs.  Raises ImportError without its package."""
    make, loss, dataset, size = MODULES[name]
    size, rate = 2 if small else size, 0.02
    data = dataset(16 * size if small else 64 * size)
    return Work(f"{size} examples", "examples", seeded(make), loss,
                lambda microbatches: TorchData(data, microbatches, size), dict(optimizer="adagrad", learning_rate=rate),
                partial(adagrad, rate))
