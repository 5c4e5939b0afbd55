"""A language model of PyTorch, trained by refimpl: on any number of ranks to the same bits.

    mpirun -n 4 python docs/examples/torch_lm.py [steps]

Its twin torch_lm_ddp.py trains the same module with DistributedDataParallel: see what differs with diff.
"""

import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from refimpl import Options, train
from refimpl.torch import TorchData, TorchModel

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


def main(steps, data=None, module=None, comm=None):
    """Train for so many steps; return what it ended with. Collective."""
    torch.manual_seed(1)  # all ranks begin with the same module
    model = TorchModel(module or LanguageModel(), lambda module, batch: module(batch.inputs, batch.targets))
    loader = DataLoader(data or Text(), batch_size=BATCH, shuffle=True)
    options = Options(optimizer="adagrad", learning_rate=0.2, steps=steps)
    return train(model, TorchData(loader, microbatches=8), options=options, comm=comm, progress=tell)


def tell(record):
    if record["step"] % 10 == 0:
        print(f"step {record['step']}  loss {record['loss']:.4f}", flush=True)


if __name__ == "__main__":
    result = main(int(sys.argv[1]) if len(sys.argv) > 1 else 100)
    if result.rank == 0:
        print(f"{result.examples_per_second:.0f} examples/s, parameters sha256 {result.parameters_sha256[:12]}…")
