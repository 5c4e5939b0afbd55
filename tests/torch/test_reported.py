"""What a loss reports beside itself, and a loss that is divided by the words of a batch instead of its examples."""

import json

import numpy as np
import pytest
import torch
from mpi4py import MPI
from toy_modules import Items, data_of, module_of, squared
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader

from refimpl import Options, train
from refimpl.torch import TorchData, TorchModel, Trainer
from refimpl.torch.tensors import on_device

CPU = torch.device("cpu")


def told(module, batch):
    """The loss, a part of it, and how many targets are above 0."""
    penalty = 0.1 * module.hidden.weight.square().sum() * len(batch.targets)
    batch.metrics["penalty"], batch.metrics["positive"] = penalty, (batch.targets > 0).sum()
    return squared(module, batch) + penalty


def test_parts_of_a_loss_stand_in_the_metrics(tmp_path):
    module = module_of("recommender")
    before = module.hidden.weight.detach().clone()
    train(TorchModel(module, told, metrics=["penalty", "positive"]), data_of(), comm=MPI.COMM_SELF, output=tmp_path,
          options=Options(steps=3, optimizer="sgd"))
    lines = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    data = data_of()
    for step, line in enumerate(lines):
        batches = [batch for v in range(8) if (batch := data.microbatch(step, v)) is not None]
        positive = sum(int((batch.targets > 0).sum()) for batch in batches) / data.examples(step)
        assert line["metrics"]["positive"] == pytest.approx(positive, rel=1e-15)
        assert list(line["metrics"]) == ["penalty", "positive"]
        assert line["bytes_sent"]["metrics"] == {"": {"control": [0]}}
    assert lines[0]["metrics"]["penalty"] == pytest.approx(0.1 * before.square().sum().item(), rel=1e-12)


def test_a_loop_of_ones_own_has_them_too():
    trainer = Trainer(module_of("recommender"), told, comm=MPI.COMM_SELF, metrics=["penalty", "positive"])
    trainer.loss(next(trainer.shard(DataLoader(Items(), 16))))
    assert trainer.metrics["metrics"]["positive"] == (Items().targets[:16] > 0).sum().item() / 16


@pytest.mark.parametrize("names, options, said", [
    (["penalty"], {}, "microbatch 0 reports penalty, positive, and the model names penalty: name all of them"),
    ([], {}, "reports penalty, positive, and the model names no metrics"),
    (["penalty", "positive", "more"], {}, "the model names penalty, positive, more: name all"),
    (["penalty", "positive"], {"consistency": "asynchronous", "architecture": "ps"}, "leave them out with --consist"),
])
def test_what_is_refused(names, options, said):
    with pytest.raises(Exception, match=said):
        train(TorchModel(module_of("recommender"), told, metrics=names), data_of(), options=Options(steps=1, **options),
              comm=MPI.COMM_SELF)


def test_a_number_that_is_not_finite_is_named():
    def loss(module, batch):
        batch.metrics["ratio"] = float("nan")
        return squared(module, batch)

    with pytest.raises(Exception, match="microbatch 0 reports ratio nan: it must be a finite number"):
        train(TorchModel(module_of("recommender"), loss, metrics=["ratio"]), data_of(), options=Options(steps=1),
              comm=MPI.COMM_SELF)


class Texts(torch.utils.data.Dataset):
    """Texts of different lengths, padded: each word foretells the next one."""

    def __init__(self, count=30, longest=7):
        drawn = torch.Generator().manual_seed(2)
        self.lengths = torch.randint(2, longest + 1, (count,), generator=drawn)
        self.words = torch.randint(1, 20, (count, longest), generator=drawn)
        self.targets = self.words.roll(-1, 1).clone()
        self.targets[torch.arange(longest) >= self.lengths[:, None] - 1] = -100

    def __len__(self):
        return len(self.words)

    def __getitem__(self, place):
        return self.words[place], self.targets[place]


def text_module():
    torch.manual_seed(4)
    return nn.Sequential(nn.Embedding(20, 4), nn.Linear(4, 20)).double()


def cross_entropy(module, batch):
    return functional.cross_entropy(module(batch.inputs).flatten(0, 1), batch.targets.flatten(), reduction="sum",
                                    ignore_index=-100)


def test_a_loss_per_word_is_pytorchs_mean_over_the_batch():
    """Not a mean of means: microbatches have different numbers of words. Evaluation counts words, too."""
    texts, found = Texts(), []
    words_of_each_item = (texts.lengths - 1).numpy()
    data = TorchData(DataLoader(texts, 12), 4, counts=words_of_each_item, ignore_index=-100)
    module, other = text_module(), text_module()
    result = train(TorchModel(module, cross_entropy, dense=["0.weight"]), data, data, comm=MPI.COMM_SELF,
                   options=Options(steps=4, optimizer="sgd", learning_rate=0.5),
                   progress=lambda record: found.append(record["loss"]))
    optimizer, wanted = torch.optim.SGD(other.parameters(), 0.5), []
    for step in range(4):
        places = range(30)[step % 3 * 12:step % 3 * 12 + 12]
        scores = other(texts.words[places.start:places.stop])
        loss = functional.cross_entropy(scores.flatten(0, 1), texts.targets[places.start:places.stop].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        wanted.append(loss.item())
    assert np.allclose(found, wanted, rtol=1e-12, atol=0)
    assert all(torch.allclose(one, two, rtol=1e-11) for one, two in zip(module.parameters(), other.parameters()))
    assert result.evaluation["count"] == words_of_each_item.sum()


@pytest.mark.parametrize("counts, said", [
    (np.ones(29, int), r"counts has shape \(29,\) and dtype int64: give a whole number of each of the 30 items"),
    (np.ones(30), "dtype float64"), (np.full(30, 6), "do not hold the targets that the data's examples"),
])
def test_counts_that_are_wrong_are_refused(counts, said):
    with pytest.raises(Exception, match=said):
        data = TorchData(DataLoader(Texts(), 12), 4, counts=counts, ignore_index=-100)
        train(TorchModel(text_module(), cross_entropy), data, options=Options(steps=2), comm=MPI.COMM_SELF)


def test_words_of_a_microbatch_are_weights():
    texts = Texts()
    data = TorchData(DataLoader(texts, 12), 4, counts=(texts.lengths - 1).numpy(), ignore_index=-100)
    given = on_device(data.microbatch(2, 0), CPU)
    assert torch.equal(given.weights, (given.targets != -100).float())
    assert sum(data.examples(step) for step in range(3)) == int((texts.lengths - 1).sum())
