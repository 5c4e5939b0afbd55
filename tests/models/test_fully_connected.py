"""Fully connected layers in column blocks: whoever holds some neighbouring blocks computes the bits of the whole."""

import numpy as np
import pytest

from models.fully_connected import FullyConnected, tree_sum
from models.variable import blocks_of

BLOCKS = 8


def parts_of(layer, dtype, n):
    rng = np.random.default_rng(n)
    shapes = (n, layer.inputs), (layer.outputs, layer.inputs), (layer.outputs,), (n, layer.outputs)
    return [rng.standard_normal(shape).astype(dtype) for shape in shapes]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("n", [0, 1, 5, 16])
@pytest.mark.parametrize("keep, last", [(0.5, False), (1.0, False), (0.5, True)])
def test_any_split_gives_the_bits_of_the_whole(dtype, n, keep, last):
    layer = FullyConnected("layer", 37, 8 * 19, BLOCKS, last, keep)
    x, weight, bias, grad = parts_of(layer, dtype, n)
    y, scale = layer.forward(x, weight, bias, 0, 7)
    by_weight, by_bias = layer.weight_gradients(grad, x)
    by_input = layer.input_gradient(grad, weight)
    for members in (1, 2, 4, 8):
        sums, width = [], layer.outputs // members
        for member in range(members):
            own = slice(member * width, (member + 1) * width)
            held = weight[own].copy(), bias[own].copy(), np.ascontiguousarray(grad[:, own])
            found, own_scale = layer.forward(x, *held[:2], member * BLOCKS // members, 7)
            assert np.array_equal(found, y[:, own]) and found.dtype == dtype
            assert own_scale == 1 if last else np.array_equal(own_scale, scale[:, own])
            assert all(map(np.array_equal, layer.weight_gradients(held[2], x), (by_weight[own], by_bias[own])))
            sums.append(layer.input_gradient(held[2], held[0]))
        assert np.array_equal(tree_sum(sums), by_input)


def test_it_is_a_product_and_its_gradients_but_for_rounding():
    layer = FullyConnected("layer", 6, 8, 4, keep=0.5)
    x, weight, bias, grad = parts_of(layer, "float64", 5)
    y, scale = layer.forward(x, weight, bias, 0, 7)
    z = x @ weight.T + bias
    assert set(np.unique(scale)) == {0, 2} and np.allclose(y, np.where(scale > 0, 2 * z, 0), rtol=1e-13)
    assert np.all(scale[z <= 0] == 0) and np.any(scale[z > 0] == 0)
    by_weight, by_bias = layer.weight_gradients(grad, x)
    assert np.allclose(by_weight, grad.T @ x, rtol=1e-12) and np.allclose(by_bias, grad.sum(axis=0), rtol=1e-12)
    assert np.allclose(layer.input_gradient(grad, weight), grad @ weight, rtol=1e-12)


def test_another_order_of_the_blocks_would_be_seen():
    layer = FullyConnected("layer", 64, 256, BLOCKS)
    _, weight, _, grad = parts_of(layer, "float32", 16)
    assert not np.array_equal(layer.input_gradient(grad, weight), grad @ weight)


def test_refuses_blocks_that_are_no_power_of_two_or_do_not_divide():
    assert blocks_of(24) == [1, 2, 4, 8] and blocks_of(7) == [1]
    for blocks in (0, 3, 16):
        with pytest.raises(ValueError, match="24 outputs of layer in .* give a power of two that divides 24: 1, 2, 4, 8"):
            FullyConnected("layer", 5, 24, blocks)
