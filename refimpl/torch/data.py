"""PyTorch's datasets as ``models.data.Data``: microbatches by step and number, the same on every rank."""

import itertools
import warnings

import numpy as np
import torch
from torch.utils.data import (
    DataLoader, DistributedSampler, IterableDataset, RandomSampler, SequentialSampler, TensorDataset, default_collate,
)

from kernels.random import key_of
from models import Batch
from models.data import Examples
from models.data.protocol import Epochs, fingerprint_of, require_step
from models.sizes import require_positive
from models.frameworks.trees import leaves, mapped
from refimpl.torch.repeatable import drawing_from

SAMPLED = 16
"""The number of items in a dataset's fingerprint. Reading all items could take as long as an epoch."""


class TorchData(Examples):
    """Data for a training: a map-style dataset, shuffled anew in every epoch. Local.

    source: the dataset, or its ``DataLoader``, whose collate_fn, sampler, shuffling and drop_last are used. A loader's
    batch_size is the number of items in a step of all ranks together: microbatches * size.
    size: the number of items in a microbatch; None: the loader's batch_size / microbatches.
    collate: makes a batch of a list of items; None: the loader's collate_fn, or that of PyTorch.
    split: function of a collated batch that returns (inputs, targets) or (inputs, targets, weights); None: the batch is
    already such a pair, or inputs without targets.
    counts: (n,) integers, for how much each item counts, for example its number of words. The loss of a step is divided
    by the sum of the counts of all its items. None: each item counts for 1.
    ignore_index: targets with this number get the weight 0.
    Random transformations and samplers may use the global random numbers of ``torch``, ``np.random`` and ``random``,
    which are seeded for each microbatch and each epoch.
    Raises ValueError for a loader whose sampler has a state of its own, or a dataset without length.
    """

    def __init__(self, source, microbatches: int, size: int | None = None, seed: int = 0, shuffle: bool = True,
                 collate=None, split=None, counts=None, ignore_index=None):
        self.drop_last, self.sampler = False, None
        dataset = source.dataset if isinstance(source, DataLoader) else source
        if isinstance(dataset, IterableDataset) or not hasattr(dataset, "__len__"):
            raise ValueError(f"{type(dataset).__name__} has no length and no order of its own: take TorchStream("
                             "dataset, microbatches, size, steps_per_epoch=...)")
        if isinstance(source, DataLoader):
            require_positive(microbatches=microbatches)
            size, shuffle = _size_of(source, microbatches, size), type(source.sampler) is not SequentialSampler
            self.sampler = None if _is_usual(source.sampler, len(dataset)) else source.sampler
            if source.num_workers:
                warnings.warn(f"num_workers={source.num_workers} is not used: the rank that trains on an item reads it",
                              stacklevel=2)
            collate, self.drop_last, source = collate or source.collate_fn, source.drop_last, source.dataset
        if size is None:
            raise ValueError("size is missing: how many examples a microbatch has")
        places = np.arange(len(source))
        super().__init__(places, places, microbatches, size, seed, shuffle)
        self.dataset, self.collate, self.split = source, collate or default_collate, split or _pair
        self.counts, self.ignore_index = None if counts is None else np.asarray(counts), ignore_index
        if self.sampler is not None and not np.array_equal(self.order(0), self._drawn(0)):
            raise ValueError(f"{type(self.sampler).__name__} gives another order each time, and so another on each "
                             "rank: let it draw from the global random numbers of torch, np.random or random")
        if counts is not None and (self.counts.shape != places.shape or self.counts.dtype.kind != "i"):
            raise ValueError(f"counts has shape {self.counts.shape} and dtype {self.counts.dtype}: give a whole number "
                             f"of each of the {len(places)} items")

    @property
    def steps_per_epoch(self) -> int:
        """The number of global batches in an epoch; a short last one is left out if the loader drops it."""
        full = self.microbatches * self.size
        return self.count // full if self.drop_last else -(-self.count // full)

    @property
    def count(self) -> int:
        """The number of items in an epoch: of the dataset, or as many as the sampler draws."""
        return len(self.inputs) if self.sampler is None else len(self.sampler)

    def order(self, epoch: int) -> np.ndarray:
        """Return the places of an epoch's items in the dataset: (count,) int64."""
        if self.sampler is None:
            return super().order(epoch)
        if self.latest[0] != epoch:
            self.latest = epoch, self._drawn(epoch)
        return self.latest[1]

    def _drawn(self, epoch) -> np.ndarray:
        with drawing_from(key_of(self.seed, "sampler", epoch)):
            found = np.array(list(self.sampler), np.int64)
        if len(found) != len(self.sampler) or not ((0 <= found) & (found < len(self.inputs))).all():
            raise ValueError(f"{type(self.sampler).__name__} says that it has {len(self.sampler)} places among "
                             f"{len(self.inputs)} items, and gives {len(found)}, up to {found.max(initial=0)}")
        return found

    @property
    def fingerprint(self) -> str:
        """Hex SHA-256 of some items, their number and order, and how they are divided into microbatches."""
        places = np.unique(np.linspace(0, len(self.inputs) - 1, SAMPLED).astype(int)) if len(self.inputs) else []
        parts = [part for place in places for part in _parts(self._items([int(place)], "fingerprint"))]
        return fingerprint_of("torch data", *parts, len(self.inputs), self.microbatches, self.size, self.seed,
                              self.shuffle, self.drop_last, *([] if self.counts is None else [self.counts]),
                              *([] if self.sampler is None else [self.order(0)]))

    def examples(self, step: int) -> int:
        """Return the number of items in the global batch, or the sum of their ``counts``."""
        if self.counts is None:
            return super().examples(step)
        require_step(self, step)
        (epoch, batch), full = divmod(step, self.steps_per_epoch), self.microbatches * self.size
        places = self.order(epoch) if self.shuffle else self.inputs
        return int(self.counts[places[batch * full:(batch + 1) * full]].sum())

    def microbatch(self, step: int, index: int) -> Batch | None:
        """Return piece ``index`` of the global batch, its items collated, as NumPy arrays."""
        places = super().microbatch(step, index)
        if places is None:
            return None
        found = _batch(self._items(places.inputs.tolist(), step, index), self.split, places.normaliser)
        if self.ignore_index is not None and found.weights is None:
            found.weights = (found.targets != self.ignore_index).astype(np.float32)
        return found

    def _items(self, places, *key):
        """Return collated items; their random numbers are seeded by the key."""
        if type(self.dataset) is TensorDataset and self.collate is default_collate:
            return [tensor[places] for tensor in self.dataset.tensors]  # the result of collating, in one step
        with drawing_from(key_of(self.seed, "items", *key)):
            fetch = getattr(self.dataset, "__getitems__", None)
            return self.collate(fetch(places) if fetch else [self.dataset[place] for place in places])


class TorchStream(Epochs):
    """Data for a training: an iterable dataset, of which each step takes the next microbatches * size items. Local.

    Every rank reads all items and keeps those of its own microbatches. A resumed run skips the items that were used. So
    each iteration over the dataset must give the same items. Global random numbers are seeded by the step in an epoch.
    After steps_per_epoch steps the iteration begins again.
    collate, split: as in ``TorchData``.
    Raises ValueError in the step in which the stream ends too early.
    """

    def __init__(self, dataset, microbatches: int, size: int, steps_per_epoch: int, collate=None, split=None):
        require_positive(microbatches=microbatches, size=size, steps_per_epoch=steps_per_epoch)
        self.dataset, self.microbatches, self.size = dataset, microbatches, size
        self.steps_per_epoch = steps_per_epoch
        self.collate, self.split = collate or default_collate, split or _pair
        self.items, self.next, self.held = None, None, {}  # the iterator, the next step, the last two steps

    @property
    def fingerprint(self) -> str:
        """Hex SHA-256 of the first items, and how items are divided into microbatches."""
        with drawing_from(key_of("fingerprint")):
            first = self.collate(list(itertools.islice(iter(self.dataset), SAMPLED)))
        return fingerprint_of("torch stream", *_parts(first), self.microbatches, self.size, self.steps_per_epoch)

    def examples(self, step: int) -> int:
        """Return the number of items in the global batch."""
        require_step(self, step)
        return self.microbatches * self.size

    def microbatch(self, step: int, index: int) -> Batch:
        """Return piece ``index`` of the step's items, collated, as NumPy arrays."""
        items = self._step(step % self.steps_per_epoch, self.examples(step))
        with drawing_from(key_of("collate", step, index)):
            collated = self.collate(items[index * self.size:(index + 1) * self.size])
        return _batch(collated, self.split, float(self.examples(step)))

    def _step(self, step, count) -> list:
        """Return the items of a step; read on to it, or from the beginning if it is past."""
        if step not in self.held:
            if self.next is None or step < self.next:
                self.items, self.next, self.held = None, 0, {}
            while self.next <= step:
                with drawing_from(key_of("items", self.next)):
                    self.items = self.items or iter(self.dataset)
                    found = list(itertools.islice(self.items, count))
                if len(found) < count:
                    raise ValueError(f"the stream ends in step {self.next} of {self.steps_per_epoch}, with "
                                     f"{len(found)} of {count} items: give steps_per_epoch={self.next}")
                self.held = dict([*self.held.items(), (self.next, found)][-2:])
                self.next += 1
        return self.held[step]


def _size_of(loader, microbatches, size) -> int:
    """Return the size of a microbatch of a loader's batches. Raises ValueError for a loader of another kind."""
    kind = type(loader.sampler).__name__
    if loader.batch_size is None or isinstance(loader.sampler, DistributedSampler):
        raise ValueError(f"the loader has a {kind} and batch_size={loader.batch_size}: refimpl chooses each "
                         "rank's part; leave DistributedSampler and batch_sampler out, and say batch_size, and shuffle "
                         "or another sampler")
    if not _is_usual(loader.sampler, len(loader.dataset)) and getattr(loader.sampler, "generator", None) is not None:
        raise ValueError(f"{kind} has a generator of its own, whose numbers depend on how often it was asked: leave "
                         "generator out; TorchData(..., seed=...) decides the order")
    if loader.batch_size % microbatches or size not in (None, loader.batch_size // microbatches):
        raise ValueError(f"the loader's batch_size={loader.batch_size} is not that of {microbatches} microbatches"
                         f"{'' if size is None else f' of {size}'}: it is the global batch of a step, of all ranks "
                         "together; give one that {microbatches} divides")
    return loader.batch_size // microbatches


def _is_usual(sampler, count) -> bool:
    """Return whether a sampler gives each item once, in order or shuffled, which is done here without it."""
    shuffles = type(sampler) is RandomSampler and not sampler.replacement and sampler.num_samples == count
    return shuffles or type(sampler) is SequentialSampler


def _pair(items):
    """Return collated items as (inputs, targets)."""
    return items if isinstance(items, (tuple, list)) and len(items) == 2 else (items, None)


def _batch(items, split, normaliser) -> Batch:
    """Return collated items as a batch of NumPy arrays."""
    return Batch(*(mapped(part, _array) for part in split(items)), normaliser=normaliser)


def _array(leaf):
    return leaf.numpy() if isinstance(leaf, torch.Tensor) else leaf


def _parts(items) -> list:
    """Return collated items as parts of a fingerprint."""
    return [_array(leaf) for leaf in leaves(items)]
