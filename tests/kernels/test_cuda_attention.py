"""Additive attention on a GPU: as close to the definition as CUDA's tanh and exp, and float64's sums, let it be."""

import numpy as np
import pytest

from kernels.attention import (
    attention_scores, attention_scores_backward, definition, masked_softmax, masked_softmax_backward,
)


@pytest.mark.parametrize("dtype", ["float32", pytest.param("float64", marks=pytest.mark.big)])
@pytest.mark.parametrize("sentences, time, units", [(2, 3, 5), pytest.param(5, 17, 130, marks=pytest.mark.big)])
def test_gpu_against_the_definition(gpu, monkeypatch, sentences, time, units, dtype):
    monkeypatch.setattr("kernels.attention.cuda.LANES", 4)
    random = np.random.default_rng(units)
    query, keys, scale = (random.normal(size=shape).astype(dtype) for shape in
                          ((sentences, units), (sentences, time, units), (units,)))
    lengths = random.integers(1, time + 1, sentences)
    there = [gpu.asarray(a) for a in (query, keys, scale, lengths)]
    rounding = (units + 8) * np.finfo(dtype).eps
    scores = attention_scores(*there)
    expected = definition.attention_scores(query, keys, scale, lengths)
    assert np.abs(scores.get() - expected).max() <= rounding * np.abs(scale).sum()
    weights = masked_softmax(gpu.asarray(expected), there[3])
    plain = definition.masked_softmax(expected, lengths)
    assert np.abs(weights.get() - plain).max() <= (time + 8) * np.finfo(dtype).eps
    assert not weights.get()[np.arange(time) >= lengths[:, None]].any()

    dweights = random.normal(size=plain.shape).astype(dtype)
    dscores = definition.masked_softmax_backward(dweights, plain)
    found = masked_softmax_backward(gpu.asarray(dweights), gpu.asarray(plain))
    assert np.abs(found.get() - dscores).max() <= 8 * (time + 8) * np.finfo(dtype).eps
    sums = [np.ones_like(keys), np.ones_like(query)]
    on_gpu = [gpu.asarray(a) for a in sums]
    dquery = attention_scores_backward(gpu.asarray(dscores), *there[:3], *on_gpu)
    expected = definition.attention_scores_backward(dscores, query, keys, scale, *sums)
    for ours, theirs in zip((dquery, *on_gpu), (expected, *sums)):
        assert np.abs(ours.get() - theirs).max() <= 16 * time * rounding * max(1, np.abs(scale).max())
