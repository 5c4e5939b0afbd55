"""Tiny translation models, and random batches of sentences that differ in length."""

import numpy as np

from models import Batch
from models.data.pairs.words import PADDING
from models.nmt import PRESETS, TranslationModel


def tiny(**changes):
    """Return a tiny float64 model."""
    return TranslationModel(**{**PRESETS["tiny"], "dtype": "float64", **changes})


def sentences(model, source_time=5, target_time=4, count=3, seed=0, padding=True):
    """Return a batch; without padding all sentences are as long as they can be, and weights are None."""
    random = np.random.default_rng(seed)
    source = random.integers(0, model.vocabularies[0], (source_time, count))
    targets = random.integers(0, model.vocabularies[1], (target_time, count))
    weights = None
    if padding:
        lengths, ends = (random.integers(1, time + 1, count) for time in (source_time, target_time))
        lengths[0], ends[-1] = source_time, target_time
        source = np.where(np.arange(source_time)[:, None] < lengths, source, PADDING)
        weights = (np.arange(target_time)[:, None] < ends).astype(np.float32)
    return Batch(source, targets, weights, normaliser=7.0, key=seed + 1)


def values_of(model, seed=1, spread=0.3):
    """Return name -> value, far enough from the initial ones that attention matters."""
    random = np.random.default_rng(seed)
    return {v.name: (v.initial_value(seed) + spread * random.normal(size=v.shape)).astype(v.dtype)
            for v in model.variables}


def step(model, values, batch):
    """Return (loss, gradients)."""
    rows = {name: values[name][ids] for name, ids in model.rows_needed(batch).items()}
    return model.loss_and_gradients({n: v for n, v in values.items() if n not in rows}, rows, batch)
