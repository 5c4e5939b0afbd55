"""PyTorch's datasets as data: the same items as their own loaders give, cut alike for whoever asks, or refused."""

import random
from collections import UserDict

import numpy as np
import pytest
import torch
from mpi4py import MPI
from toy_modules import Items, data_of, model_of
from torch.utils.data import (
    BatchSampler, DataLoader, IterableDataset, RandomSampler, Subset, TensorDataset, WeightedRandomSampler,
)

from models.data import Data
from refimpl.torch import TorchData, TorchModel, TorchStream
from refimpl.training.options import Options
from refimpl.training.session import train
from refimpl.transport import CollectiveError


class Stream(IterableDataset):
    """The items one after the other."""

    def __iter__(self):
        return iter([Items()[place] for place in range(len(Items()))])


class Noisy(Items):
    """A dataset that transforms its items at random, by numbers that ``draw`` returns."""

    def __init__(self, draw):
        super().__init__()
        self.draw = draw

    def __getitem__(self, place):
        inputs, target = super().__getitem__(place)
        return inputs, target + self.draw()


def whole(data, step):
    """Return the ids of the items of a step, microbatch by microbatch."""
    found = [data.microbatch(step, v) for v in range(data.microbatches)]
    return [batch.inputs[0].tolist() for batch in found if batch is not None]


def test_a_batch_is_what_a_loader_gives():
    data = TorchData(DataLoader(Items(), batch_size=12), microbatches=3)
    assert isinstance(data, Data) and (data.size, data.steps_per_epoch, data.examples(3)) == (4, 4, 10)
    for step, ((ids, bags, numbers), targets) in enumerate(DataLoader(Items(), batch_size=12)):
        parts = [data.microbatch(step, v) for v in range(3)]
        for index, tensor in enumerate((ids, bags, numbers)):
            assert np.array_equal(np.concatenate([part.inputs[index] for part in parts]), tensor.numpy())
        assert np.array_equal(np.concatenate([part.targets for part in parts]), targets.numpy())
        assert {part.normaliser for part in parts} == {len(targets)}


def test_a_shuffled_loader_gives_every_item_once_an_epoch_in_another_order():
    data = TorchData(DataLoader(Items(), batch_size=12, shuffle=True), microbatches=3)
    epochs = [sum((sum(whole(data, step), []) for step in range(4 * epoch, 4 * epoch + 4)), []) for epoch in (0, 1)]
    assert sorted(epochs[0]) == sorted(epochs[1]) == sorted(Items().ids.tolist()) and epochs[0] != epochs[1]


class Turning:
    """A sampler that counts its calls."""

    def __init__(self):
        self.calls = 0

    def __len__(self):
        return 8

    def __iter__(self):
        self.calls += 1
        return iter(range(self.calls, self.calls + 8))


def test_a_sampler_draws_from_the_seed_and_the_epoch():
    """A weighted one: each rank alike, again after a resume, with the frequencies that it asks for."""
    weights = torch.arange(46.0) % 3  # every third item is never drawn

    def made(seed=1):
        sampler = WeightedRandomSampler(weights, 20)
        return TorchData(DataLoader(list(range(46)), 8, sampler=sampler), 4, seed=seed)

    data, again, other = made(), made(), made(2)
    torch.manual_seed(9)
    found = [[data.microbatch(step, v).inputs.tolist() for v in range(4) if data.microbatch(step, v)]
             for step in (*range(6), 1)]
    assert data.steps_per_epoch == 3 and [data.examples(step) for step in range(3)] == [8, 8, 4]
    assert found[1] == found[6] != found[4] and found[:3] != found[3:6]
    assert found[4] == [again.microbatch(4, v).inputs.tolist() for v in range(4)]
    assert data.fingerprint == again.fingerprint != other.fingerprint
    drawn = np.concatenate([data.order(epoch) for epoch in range(200)])
    counts = np.bincount(drawn, minlength=46)[:45].reshape(15, 3).sum(axis=0)
    assert counts[0] == 0 and counts[2] / counts[1] == pytest.approx(2, rel=0.1)


def test_a_sampler_of_fewer_items_and_one_with_replacement():
    for sampler, count in ((RandomSampler(range(46), num_samples=10), 10), (RandomSampler(range(46), True, 60), 60),
                           ([5, 3, 1], 3)):
        data = TorchData(DataLoader(list(range(46)), 8, sampler=sampler), 4)
        assert sum(data.examples(step) for step in range(data.steps_per_epoch)) == count == len(data.order(1))


def test_workers_of_a_loader_are_not_used_and_it_says_so():
    with pytest.warns(UserWarning, match="num_workers=2 is not used: the rank that trains on an item reads it"):
        TorchData(DataLoader(Items(), 8, num_workers=2), 4)


def test_a_short_last_batch_can_be_dropped():
    data = TorchData(DataLoader(Items(), batch_size=12, drop_last=True), microbatches=3)
    assert data.steps_per_epoch == 3 and [data.examples(step) for step in range(4)] == [12] * 4
    assert data.starts_epoch(3)


def test_tensors_are_cut_at_once_as_item_by_item():
    tensors = TensorDataset(Items().ids, Items().targets)
    quick, slow = TorchData(tensors, 2, 3), TorchData(Subset(tensors, range(len(tensors))), 2, 3)
    for v in range(2):
        assert np.array_equal(quick.microbatch(1, v).inputs, slow.microbatch(1, v).inputs)
        assert np.array_equal(quick.microbatch(1, v).targets, slow.microbatch(1, v).targets)


def test_items_need_not_be_pairs():
    assert TorchData(Items(), 2, 3, split=lambda items: (items[0][0], items[1])).microbatch(0, 0).inputs.shape == (3,)
    batch = TorchData(Items().ids.tolist(), 2, 3).microbatch(0, 0)
    assert batch.inputs.shape == (3,) and batch.targets is None
    named = TorchData([{"a": 1, "b": 2.0}] * 8, 2, 3).microbatch(0, 0)
    assert named.inputs["a"].tolist() == [1, 1, 1]


class Named(UserDict):
    """What a tokenizer of transformers makes of a batch is such a mapping, and no dict."""


def named(items):
    ids, targets = torch.stack([inputs[0] for inputs, _ in items]), torch.stack([target for _, target in items])
    return Named(ids=ids, more=Named(targets=targets))


def named_total(module, batch):
    return (module(batch.inputs["ids"])[:, 0] - batch.inputs["more"]["targets"]).square().sum()


def test_batches_may_be_mappings():
    answers = []
    for collate in (named, lambda items: {**named(items), "more": dict(named(items)["more"])}):
        torch.manual_seed(1)
        model = TorchModel(torch.nn.Embedding(40, 1, dtype=torch.float64), named_total)
        data, heldout = TorchData(Items(), 4, 3, collate=collate), TorchData(Items(), 1, 4, collate=collate)
        answers.append(train(model, data, heldout, options=Options(steps=2), comm=MPI.COMM_SELF).parameters_sha256)
    assert answers[0] == answers[1]


@pytest.mark.parametrize("draw", [lambda: torch.rand(()), np.random.random, random.random],
                         ids=["torch", "numpy", "random"])
def test_random_transformations_are_a_function_of_the_step(draw):
    data = TorchData(Noisy(draw), 4, 3)
    one, other, again = data.microbatch(0, 0), data.microbatch(0, 1), data.microbatch(0, 0)
    assert np.array_equal(one.targets, again.targets) and not np.array_equal(one.targets % 1, other.targets % 1)


@pytest.mark.parametrize("change", [dict(microbatches=2), dict(size=4), dict(seed=2), dict(shuffle=False)])
def test_the_fingerprint_tells_data_apart(change):
    given = dict(microbatches=4, size=3, seed=1)
    assert TorchData(Items(), **given).fingerprint == TorchData(Items(), **given).fingerprint
    assert TorchData(Items(), **given).fingerprint != TorchData(Items(), **{**given, **change}).fingerprint
    assert TorchData(Items(), **given).fingerprint != TorchData(Items(seed=4), **given).fingerprint


@pytest.mark.parametrize("source, options, said", [
    (Stream(), {}, r"Stream has no length .* take TorchStream\(dataset"),
    (DataLoader(Stream(), batch_size=8), {}, r"Stream has no length .* take TorchStream\(dataset"),
    (Items(), dict(size=None), "size is missing"),
    (DataLoader(Items(), batch_size=10), {}, "batch_size=10 is not that of 4 microbatches: it is the global batch"),
    (DataLoader(Items(), batch_size=8), dict(size=3), "batch_size=8 is not that of 4 microbatches of 3"),
    (DataLoader(Items(), batch_sampler=BatchSampler(RandomSampler(Items()), 4, False)), {}, "batch_size=None: refimpl"),
    (DataLoader(Items(), sampler=torch.utils.data.DistributedSampler(Items(), 2, 0)), {}, "has a DistributedSampler"),
    (DataLoader(Items(), 8, sampler=RandomSampler(Items(), True, generator=torch.Generator())), {},
     "RandomSampler has a generator of its own"),
    (DataLoader(Items(), 8, sampler=Turning()), {}, "Turning gives another order each time"),
    (DataLoader(Items(), 8, sampler=[3, 99]), {}, "list says that it has 2 places among 46 items, and gives 2, up to"),
], ids=["stream", "stream-loader", "size", "batch", "both", "batch-sampler", "sampler", "generator", "turning",
        "places"])
def test_what_chooses_items_otherwise_is_refused(source, options, said):
    with pytest.raises(ValueError, match=said):
        TorchData(source, **{"microbatches": 4, **options})


def test_a_stream_gives_the_next_items_to_whoever_asks():
    given = TorchStream(Stream(), 4, 3, steps_per_epoch=3)
    assert isinstance(given, Data)
    ids = Items().ids.tolist()
    for step in (0, 1, 2, 1, 0, 3, 5):  # a planner looks ahead, a resumed run skips
        first = step % 3 * 12
        assert sum(whole(given, step), []) == ids[first:first + 12]
    assert [given.starts_epoch(step) for step in range(4)] == [True, False, False, True]
    assert given.fingerprint != TorchStream(Stream(), 3, 4, steps_per_epoch=3).fingerprint


def test_random_numbers_of_a_stream_are_a_function_of_the_step():
    class Drawing(IterableDataset):
        def __iter__(self):
            while True:
                yield random.random() + np.random.random()

    def collate(items):
        return torch.tensor(items) + torch.rand(())

    def read(seed):
        random.seed(seed)
        np.random.seed(seed)
        torch.manual_seed(seed)
        data = TorchStream(Drawing(), 2, 3, steps_per_epoch=9, collate=collate)
        return data.fingerprint, [data.microbatch(step, 1).inputs.tolist() for step in (0, 1, 4)]

    assert read(1) == read(2)


def test_a_stream_that_ends_too_early():
    with pytest.raises(CollectiveError, match="ends in step 3 of 5, with 10 of 12 items: give steps_per_epoch=3"):
        train(model_of("recommender"), TorchStream(Stream(), 4, 3, steps_per_epoch=5), options=Options(steps=5),
              comm=MPI.COMM_SELF)


@pytest.mark.parametrize("collate", [None, named], ids=["pairs", "mapping"])
def test_a_dataset_that_draws_from_elsewhere_is_found_in_the_first_step(collate):
    data = TorchData(Noisy(np.random.default_rng().random), 4, 3, collate=collate)
    model = model_of("recommender") if collate is None else TorchModel(
        torch.nn.Embedding(40, 1, dtype=torch.float64), named_total)
    with pytest.raises(CollectiveError, match="has changed between two calls.*NumPy or random"):
        train(model, data, options=Options(steps=1), comm=MPI.COMM_SELF)


def test_a_stream_trains_as_its_items_do():
    streams, items = TorchStream(Stream(), 4, 3, steps_per_epoch=3), data_of(4, 3, shuffle=False)
    found = [train(model_of("tied"), data, options=Options(steps=3), comm=MPI.COMM_SELF).parameters_sha256
             for data in (streams, items)]
    assert found[0] == found[1]
