"""Products with few columns: exact at every edge, with the bits of BLAS where claimed; an LSTM's steps alike."""

import numpy as np
import pytest

from kernels.lstm import lstm_backward, lstm_forward, product, steps

needs_registers = pytest.mark.skipif(not product.has_registers(), reason="no AVX-512: BLAS computes every product")


def whole(random, *shape):
    return random.integers(-9, 10, shape).astype(np.float32)  # sums are exact in every order


@needs_registers
@pytest.mark.parametrize("terms", [1, 7, 16, 37, 50])
@pytest.mark.parametrize("rows, columns", [(1, 1), (8, 8), (32, 12), (40, 20), (77, 21), (64, 28)])
def test_exact_sums_in_pieces_of_any_depth(terms, rows, columns):
    """All kinds of tiles; weights and result are parts of wider arrays, whose other elements stay as they are."""
    random = np.random.default_rng(terms)
    weights, x = whole(random, terms, rows + 3)[:, 1:rows + 1], whole(random, terms, columns)
    for depth in (1, 16, 17, 32, 2**40):
        room = np.full((rows, columns + 2), np.nan, np.float32)
        product.product(product.panels(weights, False), x, room[:, 1:-1], depth)
        assert np.array_equal(room[:, 1:-1], weights.T @ x) and np.isnan(room[:, [0, -1]]).all()


@needs_registers
def test_multiplication_and_addition_round_once():
    """1 - 2**-24 = (1 + 2**-12)(1 - 2**-12): rounded before 1 is subtracted, the product would be 1."""
    weights = np.repeat(np.float32([[1], [1 + 2.0**-12]]), 8, axis=1)
    x, out = np.repeat(np.float32([[-1], [1 - 2.0**-12]]), 8, axis=1), np.empty((8, 8), np.float32)
    product.product(product.panels(weights, False), x, out, 2**40)
    assert np.all(out == -(2.0**-24))


def from_columns(weights, x):
    return np.matmul(weights.T.copy(), x)


@needs_registers
@pytest.mark.parametrize("form, terms, rows, columns", [
    (from_columns, 256, 1024, 8), (from_columns, 1024, 128, 8), (from_columns, 1024, 128, 16),
    (from_columns, 1000, 250, 20), (steps._to_rows, 256, 128, 8)])
def test_bits_that_are_claimed_hold_for_other_numbers_and_places(form, terms, rows, columns):
    depth = product.depth_for(form, terms, rows, columns)
    if depth is None:
        pytest.skip("this BLAS adds in another order")
    random, out = np.random.default_rng(5), np.empty((rows, columns), np.float32)
    for shift in range(4):  # elements from an aligned address
        x = random.standard_normal(shift + terms * columns).astype(np.float32)[shift:].reshape(terms, columns)
        weights = np.exp(3 * random.standard_normal((terms, rows))).astype(np.float32)
        if shift == 3:  # sums that round to 0, or to -0
            weights, x = weights * np.float32(1e-25), x * np.float32(1e-25)
        product.product(product.panels(weights, False), x, out, depth)
        assert product._same(out, form(weights, x))


@needs_registers
def test_another_order_of_addition_is_not_claimed():
    def backwards(weights, x):
        return from_columns(weights[::-1], x[::-1])

    def another_zero(weights, x):
        return -from_columns(-weights, x)  # -0 where the sum is 0

    if product.depth_for(from_columns, 256, 1024, 8) is None:
        pytest.skip("this BLAS adds in another order")
    assert product.depth_for(backwards, 256, 1024, 8) is None
    assert product.depth_for(another_zero, 256, 1024, 8) is None, "sums that are too small round to -0"


@pytest.mark.parametrize("projected", [True, False])
@pytest.mark.parametrize("streams, hidden", [(8, 256), (16, 512), (24, 136), (20, 250)])
def test_compiled_steps_have_the_bits_of_the_others(streams, hidden, projected, monkeypatch):
    time, inputs, width = steps.FEWEST, 128, 128 if projected else hidden
    random = np.random.default_rng(streams)

    def normal(*shape):
        return (0.3 * random.standard_normal(shape)).astype(np.float32)

    x, kernel, bias = normal(time, streams, inputs), normal(inputs + width, 4 * hidden), normal(4 * hidden)
    projection, state = normal(hidden, width) if projected else None, (normal(streams, hidden), normal(streams, width))
    dh, last = normal(time, streams, width), (normal(streams, hidden), normal(streams, width))
    if steps.depths_for("float32", streams, inputs, hidden, width, projected) is None:
        pytest.skip("BLAS computes these steps on this machine")

    def run(initial):
        h, tape = lstm_forward(x, kernel, bias, projection, *state)
        return [h, *tape.last_state(), *lstm_backward(dh, tape, kernel, projection, initial, last)]

    found = run(True), run(False)
    monkeypatch.setattr(steps, "depths_for", lambda *_: None)
    for ours, expected in zip(sum(found, []), run(True) + run(False)):
        assert ours is expected is None or np.array_equal(ours, expected)
