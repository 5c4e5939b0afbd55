"""A language model of PyTorch, trained with DistributedDataParallel: each rank its part of every batch.

    torchrun --nproc-per-node 4 docs/examples/torch_lm_ddp.py [steps]

Its twin torch_lm.py trains the same module with refimpl: see what differs with diff.
"""

import sys
import time

import torch
from torch import nn
from torch.distributed import (
    all_reduce, destroy_process_group, get_rank, get_world_size, init_process_group,
)
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset, DistributedSampler

VOCABULARY, BATCH = 50_000, 128


class Text(TensorDataset):
    """Windows of a made-up text in which half of all words follow from the word before: (inputs, targets)."""

    def __init__(self, windows=4096, length=20, vocabulary=VOCABULARY):
        drawn = torch.Generator().manual_seed(1)
        words = (vocabulary * torch.rand(windows, length + 1, generator=drawn) ** 4).long()  # few are frequent
        follows = torch.rand(windows, length + 1, generator=drawn) < 0.5
        for t in range(length):
            words[:, t + 1] = torch.where(follows[:, t], (7 * words[:, t] + 1) % vocabulary, words[:, t + 1])
        super().__init__(words[:, :-1].contiguous(), words[:, 1:].contiguous())


class LanguageModel(nn.Module):
    """Words in, an LSTM, a softmax over the true words and a few drawn ones: of both tables few rows are used."""

    def __init__(self, vocabulary=VOCABULARY, width=128, hidden=256, samples=512):
        super().__init__()
        self.words = nn.Embedding(vocabulary, width, sparse=True)
        self.lstm = nn.LSTM(width, hidden, batch_first=True)
        self.out = nn.Embedding(vocabulary, hidden, sparse=True)
        self.samples = samples
        nn.init.normal_(self.out.weight, std=hidden**-0.5)

    def forward(self, inputs, targets):
        """Return the sum of the losses of all words."""
        drawn = torch.randint(self.out.num_embeddings, (self.samples,))
        states, targets = self.lstm(self.words(inputs))[0].flatten(0, 1), targets.flatten()
        own, others = self.out(torch.cat([targets, drawn])).split([len(targets), self.samples])
        own, others = (states * own).sum(1), states @ others.T
        others = others.masked_fill(targets[:, None] == drawn, -torch.inf)
        return (torch.logaddexp(own, others.logsumexp(1)) - own).sum()


def main(steps, data=None, module=None):
    """Train for so many steps; return the mean loss of the last batch, and examples a second. Collective."""
    torch.manual_seed(1)  # all ranks begin with the same module
    model, data = DistributedDataParallel(module or LanguageModel()), data or Text()
    loader = DataLoader(data, batch_size=BATCH // get_world_size(), sampler=DistributedSampler(data))
    optimizer = torch.optim.Adagrad(model.parameters(), lr=0.2, initial_accumulator_value=1.0, eps=0.0)
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
