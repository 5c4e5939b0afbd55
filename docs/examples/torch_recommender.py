"""A recommender of PyTorch, trained by refimpl: on any number of ranks to the same bits.

    mpirun -n 4 python docs/examples/torch_recommender.py [steps]

Its twin torch_recommender_ddp.py trains the same module with DistributedDataParallel: see what differs with diff.
"""

import itertools
import sys

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset

from refimpl import Options, train
from refimpl.torch import TorchData, TorchModel

VISITORS, ITEMS, COUNTRIES, BATCH = 200_000, 20_000, 50, 512


class Clicks(Dataset):
    """What visitors saw, and whether they clicked: made up, so that it can be learned."""

    def __init__(self, count=65_536, items=ITEMS):
        drawn = torch.Generator().manual_seed(1)

        def popular(rows, *shape):
            return (rows * torch.rand(count, *shape, generator=drawn) ** 3).long()  # few are frequent

        self.visitor, self.shown, self.seen = popular(VISITORS), popular(items), popular(items, 10)
        self.country, self.numbers = popular(COUNTRIES), torch.randn(count, 8, generator=drawn)
        taste = (self.shown % 7 - 3) * (self.seen[:, 0] % 5 - 2) / 4 + self.numbers[:, 0] + self.country % 3 - 1
        self.clicked = (torch.rand(count, generator=drawn) < taste.sigmoid()).float()

    def __len__(self):
        return len(self.clicked)

    def __getitems__(self, places):
        """Return the items of a batch, which ``itself`` leaves as it is: PyTorch would stack them one by one."""
        places = torch.tensor(places)
        return (self.visitor[places], self.shown[places], self.seen[places], self.country[places],
                self.numbers[places]), self.clicked[places]


def itself(items):
    return items


class Recommender(nn.Module):
    """Tables of very different sizes, products of their rows (Naumov et al. 2019, DLRM), and a small network."""

    def __init__(self, visitors=VISITORS, items=ITEMS, countries=COUNTRIES, width=32):
        super().__init__()
        self.visitors, self.items = (nn.Embedding(rows, width, sparse=True) for rows in (visitors, items))
        self.seen = nn.EmbeddingBag(items, width, mode="mean", sparse=True)
        self.countries = nn.Embedding(countries, width, sparse=True)
        self.numbers = nn.Sequential(nn.Linear(8, 64), nn.ReLU(), nn.Linear(64, width))
        self.top = nn.Sequential(nn.Linear(width + 10, 64), nn.ReLU(), nn.Linear(64, 1))
        for table in (self.visitors, self.items, self.seen, self.countries):
            nn.init.normal_(table.weight, std=0.1)

    def forward(self, inputs, clicked):
        """Return the sum of the losses of all examples."""
        visitor, shown, seen, country, numbers = inputs
        parts = [self.visitors(visitor), self.items(shown), self.seen(seen), self.countries(country)]
        parts.append(numbers := self.numbers(numbers))
        products = [(one * other).sum(1) for one, other in itertools.combinations(parts, 2)]
        scores = self.top(torch.cat([numbers, torch.stack(products, 1)], 1)).squeeze(1)
        return functional.binary_cross_entropy_with_logits(scores, clicked, reduction="sum")


def main(steps, data=None, module=None, comm=None):
    """Train for so many steps; return what it ended with. Collective."""
    torch.manual_seed(1)  # all ranks begin with the same module
    model = TorchModel(module or Recommender(), lambda module, batch: module(batch.inputs, batch.targets))
    loader = DataLoader(data or Clicks(), batch_size=BATCH, shuffle=True, collate_fn=itself)
    options = Options(optimizer="adagrad", learning_rate=0.05, steps=steps)
    return train(model, TorchData(loader, microbatches=8), options=options, comm=comm, progress=tell)


def tell(record):
    if record["step"] % 10 == 0:
        print(f"step {record['step']}  loss {record['loss']:.4f}", flush=True)


if __name__ == "__main__":
    result = main(int(sys.argv[1]) if len(sys.argv) > 1 else 100)
    if result.rank == 0:
        print(f"{result.examples_per_second:.0f} examples/s, parameters sha256 {result.parameters_sha256[:12]}…")
