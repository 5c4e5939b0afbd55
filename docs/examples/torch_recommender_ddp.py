"""A recommender of PyTorch, trained with DistributedDataParallel: each rank its part of every batch.

    torchrun --nproc-per-node 4 docs/examples/torch_recommender_ddp.py [steps]

Its twin torch_recommender.py trains the same module with refimpl: see what differs with diff.
"""

import itertools
import sys
import time

import torch
from torch import nn
from torch.nn import functional
from torch.distributed import (
    all_reduce, destroy_process_group, get_rank, get_world_size, init_process_group,
)
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset, DistributedSampler

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


def main(steps, data=None, module=None):
    """Train for so many steps; return the mean loss of the last batch, and examples a second. Collective."""
    torch.manual_seed(1)  # all ranks begin with the same module
    model, data = DistributedDataParallel(module or Recommender()), data or Clicks()
    loader = DataLoader(data, batch_size=BATCH // get_world_size(), sampler=DistributedSampler(data), collate_fn=itself)
    optimizer = torch.optim.Adagrad(model.parameters(), lr=0.05, initial_accumulator_value=1.0, eps=0.0)
    done, begin = 0, time.perf_counter()
    while done < steps:
        loader.sampler.set_epoch(done * BATCH // len(data))
        for inputs, targets in loader:
            loss = model(inputs, targets) / len(targets)  # DDP takes the mean of the ranks' gradients
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            done += 1
            if done % 10 == 0 or done == steps:
                mean = loss.detach() / get_world_size()
                all_reduce(mean)
                if get_rank() == 0 and done % 10 == 0:
                    print(f"step {done}  loss {mean.item():.4f}", flush=True)
            if done == steps:
                return mean.item(), steps * BATCH / (time.perf_counter() - begin)


if __name__ == "__main__":
    torch.set_num_threads(1)
    init_process_group("gloo")
    _, speed = main(int(sys.argv[1]) if len(sys.argv) > 1 else 100)
    if get_rank() == 0:
        print(f"{speed:.0f} examples/s")
    destroy_process_group()
