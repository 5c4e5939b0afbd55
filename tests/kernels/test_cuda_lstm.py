"""The LSTM cell on a GPU: activations within the derived bound, the rest bit for bit."""

import numpy as np
import pytest
from test_lstm import check_cell

from kernels.lstm import cuda, definition

# exp and tanh within 2 ULPs (CUDA's guide, table of ULPs); sigmoid: exp, then 1 + e and a division, each rounded once
SIGMOID_ULPS, TANH_ULPS = 6, 4


def draw(seed, *shapes, dtype=np.float32):
    random = np.random.default_rng(seed)
    return [(2 * random.normal(size=shape)).astype(dtype) for shape in shapes]


def turned(array):
    """On a GPU rows are streams."""
    return np.ascontiguousarray(array.T)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("hidden, streams", [(1, 1), (5, 3), (3, 17)])
def test_cell_against_the_definition(gpu, hidden, streams, dtype):
    state = (hidden, streams)
    gates, bias, c, dm, dc = draw(hidden, (4 * hidden, streams), (4 * hidden,), state, state, state, dtype=dtype)
    before = gates + bias[:, None]
    there = [gpu.asarray(turned(a)) for a in (gates, bias, c, *(np.empty_like(c) for _ in range(3)))]
    cuda.cell_forward(*there)
    gates, c_next, tanh_c, m = (there[k].get().T for k in (0, 3, 4, 5))
    ulp = np.finfo(dtype).eps
    check_cell(gates, before, c, c_next, tanh_c, m, SIGMOID_ULPS * ulp, TANH_ULPS * ulp)

    expected, dc_plain = np.empty_like(gates), dc.copy()
    definition.cell_backward(dm, dc_plain, gates, c, tanh_c, expected)
    dgates, dc = gpu.empty(gates.T.shape, dtype), gpu.asarray(turned(dc))
    cuda.cell_backward(gpu.asarray(turned(dm)), dc, there[0], there[2], there[4], dgates)
    assert np.array_equal(dgates.get().T, expected) and np.array_equal(dc.get().T, dc_plain)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("count", [1, 5, 8, 21])
def test_sum_of_rows(gpu, monkeypatch, count, dtype):
    """Two at once: rows 0, 2, 4, ... and rows 1, 3, 5, ..., and then both."""
    monkeypatch.setattr(cuda, "PARTS", 2)
    rows, = draw(count, (count, 3), dtype=dtype)
    halves = [np.zeros(3, dtype), np.zeros(3, dtype)]
    for number, row in enumerate(rows):
        halves[number % 2] += row
    assert np.array_equal(cuda.sum_of_rows(gpu.asarray(rows)).get(), halves[0] + halves[1])
