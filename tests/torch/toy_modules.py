"""Small modules with all that a module can have: tables of two kinds, tied weights, batch norm, dropout, an LSTM."""

from dataclasses import replace

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import Dataset

from models import Batch
from refimpl.torch import TorchData, TorchModel

ROWS, BAGS, WIDTH = 40, 30, 4


class Items(Dataset):
    """n items ((an id, three ids of a bag, two numbers), a target), some ids 0: padding."""

    def __init__(self, count=46, dtype=torch.float64, seed=3):
        drawn = torch.Generator().manual_seed(seed)
        self.ids, self.bags = (torch.randint(0, rows, (count, *more), generator=drawn)
                               for rows, more in ((ROWS, ()), (BAGS, (3,))))
        self.ids[::7], self.bags[::5, 1] = 0, 0
        self.numbers, self.targets = (torch.randn(count, *more, generator=drawn, dtype=dtype) for more in ((2,), ()))

    def __len__(self):
        return len(self.ids)

    def __getitem__(self, place):
        return (self.ids[place], self.bags[place], self.numbers[place]), self.targets[place]


class Recommender(nn.Module):
    """Two tables and a small network with batch norm and dropout."""

    def __init__(self, dtype=torch.float64, mode="mean", sparse=False):
        super().__init__()
        made = {"dtype": dtype}
        self.items = nn.Embedding(ROWS, WIDTH, padding_idx=0, sparse=sparse, **made)
        self.tags = nn.EmbeddingBag(BAGS, WIDTH, mode=mode, padding_idx=0, sparse=sparse, **made)
        self.norm, self.dropout = nn.BatchNorm1d(2 * WIDTH + 2, **made), nn.Dropout(0.25)
        self.hidden, self.out = nn.Linear(2 * WIDTH + 2, 5, **made), nn.Linear(5, 1, **made)

    def forward(self, inputs):
        ids, bags, numbers = inputs
        x = self.norm(torch.cat([self.items(ids), self.tags(bags), numbers], 1))
        return self.out(self.dropout(torch.tanh(self.hidden(x)))).squeeze(1)


class Tied(nn.Module):
    """Words in, words out of the same table; a second table that nothing else holds; an LSTM between."""

    def __init__(self, dtype=torch.float64):
        super().__init__()
        self.words = nn.Embedding(ROWS, WIDTH, dtype=dtype)
        self.places = nn.Embedding(4, WIDTH, dtype=dtype)
        self.lstm = nn.LSTM(WIDTH, WIDTH, batch_first=True, dtype=dtype)
        self.out = nn.Linear(WIDTH, ROWS, bias=False, dtype=dtype)
        self.out.weight = self.words.weight
        self.register_buffer("order", torch.arange(4))

    def forward(self, inputs):
        ids, bags, _ = inputs
        text = torch.cat([ids[:, None], bags], 1)
        return self.out(self.lstm(self.words(text) + self.places(self.order))[0])


class Carried(nn.Module):
    """The next word of texts that go on from step to step: (time, streams)."""

    def __init__(self, dtype=torch.float64):
        super().__init__()
        self.words, self.out = nn.Embedding(50, WIDTH, dtype=dtype), nn.Linear(WIDTH, 50, dtype=dtype)
        self.lstm = nn.LSTM(WIDTH, WIDTH, 2, dropout=0.3, dtype=dtype)

    def forward(self, inputs, state):
        x, state = self.lstm(self.words(inputs), state)
        return self.out(x), state


def next_words(module, batch):
    state = (batch.state["h"], batch.state["c"]) if batch.state else None
    scores, (batch.state["h"], batch.state["c"]) = module(batch.inputs, state)
    losses = functional.cross_entropy(scores.flatten(0, 1), batch.targets.flatten(), reduction="none")
    return losses.sum() if batch.weights is None else (losses * batch.weights.flatten()).sum()


def squared(module, batch):
    return functional.mse_loss(module(batch.inputs), batch.targets, reduction="sum")


def words(module, batch):
    """Each word of a text foretells the next one."""
    ids, bags, _ = batch.inputs
    return functional.cross_entropy(module(batch.inputs)[:, :-1].flatten(0, 1), bags.flatten(), reduction="sum")


LOSSES = {"recommender": (Recommender, squared), "tied": (Tied, words)}


TEXTS = {"carried": (Carried, next_words)}


def module_of(name, dtype=torch.float64, **changes):
    """Return a module that starts at the same values whenever it is made."""
    torch.manual_seed(5)
    module = (LOSSES | TEXTS)[name][0](dtype, **changes)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.normal_()
    return module


def model_of(name, dtype=torch.float64, **options):
    return TorchModel(module_of(name, dtype), (LOSSES | TEXTS)[name][1], **options)


def data_of(microbatches=8, size=2, dtype=torch.float64, **options):
    return TorchData(Items(dtype=dtype), microbatches, size, seed=1, **options)


def batch_of(size=11, key=7, **changes) -> Batch:
    """Return a microbatch as a trainer gives it."""
    return replace(data_of(1, size).microbatch(0, 0), key=key, **changes)
