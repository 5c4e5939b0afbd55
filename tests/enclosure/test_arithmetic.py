"""Every operation's ball holds what float32 evaluations give, in any order, with FMA or without, and not much more."""

import numpy as np
import pytest

from kernels import aggregate_rows
from kernels.conv import convolve, convolve_backward, definition, patches, winograd
from kernels.lstm import lstm_backward, lstm_forward
from kernels.lstm.fast import cell_forward
from refimpl.enclosure import Enclosure, convolution, namespace as xp
from refimpl.enclosure.compare import distance
from refimpl.enclosure.enclosure import Truth
from refimpl.enclosure.rounding import MOST_TERMS, gamma

EPS, TINY = 2.0**-24, 2.0**-126
SHAPE = (7, 5)


def numbers(seed, *shape, dtype=np.float32, low=-2.0):
    return np.random.default_rng(seed).uniform(low, 2.0, shape).astype(dtype)


def ball(seed, *shape, radius=0.0, low=-2.0):
    """Return an enclosure, and float32 values from all over its balls, their ends among them."""
    values = numbers(seed, *shape, low=low)
    enclosure = Enclosure(values.astype(float), np.full(shape, radius), np.float32)
    shifts = [np.zeros(shape), np.full(shape, radius), np.full(shape, -radius)]
    shifts += [radius * np.random.default_rng(k).uniform(-1, 1, shape) for k in range(5)]
    found = [(values + shift).astype(np.float32) for shift in shifts]
    return enclosure, [np.clip(f, enclosure.lowest, enclosure.highest).astype(np.float32) if radius == 0 else
                       np.where(np.abs(f - enclosure.middle) <= radius, f, values) for f in found]


def holds(enclosure, value):
    """Return whether all values lie in their balls."""
    return bool((np.abs(np.asarray(value, np.float64) - enclosure.middle) <= enclosure.radius).all())


ELEMENTWISE = {
    "add": (lambda m, x, y: m.add(x, y), -2), "subtract": (lambda m, x, y: x - y, -2),
    "multiply": (lambda m, x, y: x * y, -2), "divide": (lambda m, x, y: x / y, 0.1),
    "square": (lambda m, x, y: x * x, -2), "exp": (lambda m, x, y: m.exp(x), -2),
    "log": (lambda m, x, y: m.log(x), 0.1),
    "tanh": (lambda m, x, y: m.tanh(x), -2), "sqrt": (lambda m, x, y: m.sqrt(x), 0.01),
    "maximum": (lambda m, x, y: m.maximum(x, y), -2), "relu": (lambda m, x, y: m.maximum(x, 0), -2),
    "masked": (lambda m, x, y: y * (x > 0), -2), "where": (lambda m, x, y: m.where(x < y, x * 2, y), -2),
    "largest": (lambda m, x, y: x.max(axis=1), -2), "mean": (lambda m, x, y: x.mean(axis=(0, 1)), -2),
    "scalar": (lambda m, x, y: 1 - x / 127.5 + np.float32(0.1) * y, -2), "row": (lambda m, x, y: x - y[0][None], -2),
}


@pytest.mark.parametrize("radius", [0.0, 1e-6, 0.05])
@pytest.mark.parametrize("name", ELEMENTWISE)
def test_elementwise(name, radius):
    work, low = ELEMENTWISE[name]
    low = max(low, 2 * radius) if low > 0 else low
    (x, xs), (y, ys) = ball(1, *SHAPE, radius=radius, low=low), ball(2, *SHAPE, radius=radius, low=low)
    result = work(xp, x, y)
    assert result.dtype == np.float32
    for a in xs:
        for b in ys:
            assert holds(result, work(np, a, b)) and holds(result, work(np, a.astype(float), b.astype(float)))
    largest = np.abs(result.middle) + 1
    assert (result.radius <= 60 * radius * largest + 64 * EPS * largest + 2.0 * (name in ("masked", "where"))).all()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_sums_in_any_order(dtype):
    """Products of matrices summed forwards, backwards, pairwise, and in a finer dtype; the bound is gamma's."""
    a, b = numbers(3, 6, 40, dtype=dtype), numbers(4, 40, 3, dtype=dtype)
    terms = a[:, :, None] * b[None]
    result = Enclosure.exact(a) @ Enclosure.exact(b)
    for order in (slice(None), slice(None, None, -1), np.random.default_rng(5).permutation(40)):
        total = np.zeros((6, 3), dtype)
        for k in np.arange(40)[order]:
            total += terms[:, k]
        assert holds(result, total)
    assert holds(result, terms.sum(axis=1)) and holds(result, a @ b)
    assert np.allclose(result.radius, gamma(40, dtype) * (np.abs(a) @ np.abs(b)), rtol=1e-6)
    assert holds(xp.einsum("nd,nd->n", Enclosure.exact(a), Enclosure.exact(a)), (a * a).sum(axis=1))
    assert holds(Enclosure.exact(a).sum(axis=0), a[::-1].sum(axis=0))
    assert holds(Enclosure.exact(a).sum(dtype="float64"), a.sum(dtype="float64"))


def test_worst_case_of_a_sum_is_reached():
    """One number and many that are each rounded away: the bound is not much larger than what happens."""
    values = np.array([1.0] + 500 * [EPS], np.float32)
    result = Enclosure.exact(values).sum()
    forwards = np.float32(0)
    for value in values:
        forwards += value
    error = abs(float(forwards) - float(result.middle))
    assert holds(result, forwards) and error > 0.4 * gamma(501, np.float32) * 1.0 and result.radius < 3 * error


def test_what_rounds_nothing_adds_nothing():
    x = Enclosure.exact(numbers(6, 4))
    for same in (x * 2, x * np.float32(0.25), x + 0, x * 1.0, -x, abs(x), xp.maximum(x, 0), x[::-1], x.reshape(2, 2).T):
        assert not same.radius.any()
    assert (x * 3).radius.all() and (x + 1).radius.all()


@pytest.mark.parametrize("least", [0.0, 2.0**-149])
def test_what_is_too_small_may_be_flushed_or_kept(least):
    """least: the smallest number that a device has. What keeps its digits loses them below the normal numbers, too."""
    def on_device(exact):
        return np.float32(exact) if least else np.where(np.abs(exact) < TINY, 0, exact)

    x, power = (Enclosure.exact(np.array(values, np.float32)) for values in ([1.5 * TINY, -TINY], [2.0**-80, 2.0**-70]))
    exact = x.middle * 2.0**-24
    assert holds(x * np.float32(2.0**-24), on_device(exact)) and holds(power * power, on_device(power.middle**2))
    for tiny in (exact, np.zeros(2)):
        kept = Enclosure(tiny, np.zeros(2), np.float32) + 0
        assert holds(kept, on_device(tiny)) and kept.radius.any() == tiny.any()
    left, right = (np.full((1, 9), a * 2.0**-64) for a in (1.5, 0.7))
    product = Enclosure.exact(left, np.float32) @ Enclosure.exact(right.T, np.float32)
    assert product.radius >= 17 * TINY  # nine products and eight sums


def test_of_what_has_no_end_nothing_is_known():
    endless = Enclosure(np.zeros(2), np.array([np.inf, np.nan]), np.float32)
    truth = endless > 0
    assert truth.maybe.all() and not truth.surely.any() and (0 > endless).maybe.all()
    chosen = xp.where(truth, Enclosure.exact(np.full(2, 5.0)), Enclosure.exact(np.full(2, 7.0)))
    assert holds(chosen, [5, 5]) and holds(chosen, [7, 7])
    with np.errstate(invalid="ignore"):
        far = Enclosure(np.full(2, 800.0), np.array([np.inf, np.nan]), np.float64)
        assert not np.isfinite(xp.exp(far).radius).any()
        assert distance("x", Enclosure(np.zeros(1), np.full(1, np.nan), np.float32), [0.0]).outside == 1


def test_a_logarithm_down_to_next_to_zero():
    middle, radius = np.float64(0.5124172398644651), np.float64(0.5124172396258522)
    assert holds(xp.log(Enclosure(middle, radius, np.float64)), np.log(middle - radius))


def test_infinite_logits_are_nobodys_doubt():
    logits = Enclosure.exact(np.array([[1.0, 2.0]], np.float32))
    logits[0, 0] = -np.inf
    logits += Enclosure(np.zeros(2), np.full(2, 1e-3), np.float32)
    found = xp.exp(logits - logits.max(axis=1)[:, None])
    assert found.middle[0, 0] == found.radius[0, 0] == 0 and 0 < found.radius[0, 1] < 0.01


def test_where_nothing_is_known_the_ball_has_no_end():
    around_zero = Enclosure(np.zeros(1), np.full(1, 0.1), np.float32)
    assert np.isinf((1 / around_zero).radius) and np.isinf(xp.log(around_zero).radius)
    assert holds(xp.sqrt(around_zero), [np.sqrt(0.1)]) and holds(xp.sqrt(around_zero), [0.0])
    assert (around_zero * around_zero).lowest >= -1e-10


def test_a_comparison_that_is_not_decided_takes_both():
    x = Enclosure(np.array([-1.0, 1e-3, 1.0]), np.full(3, 1e-2), np.float32)
    truth = x > 0
    assert isinstance(truth, Truth) and truth.surely.tolist() == [False, False, True]
    assert truth.maybe.tolist() == [False, True, True]
    chosen = xp.where(truth, Enclosure.exact(np.full(3, 5.0)), Enclosure.exact(np.full(3, 7.0)))
    assert chosen.middle.tolist() == [7, 6, 5] and chosen.radius.tolist() == pytest.approx([0, 1, 0], rel=1e-6)


def test_an_enclosure_never_becomes_numbers_unseen():
    x = Enclosure.exact(numbers(7, 3))
    for work in (lambda: np.asarray(x), lambda: float(x), lambda: np.sin(x), lambda: np.add.reduce(x),
                 lambda: numbers(7, 3).__iadd__(x)):
        with pytest.raises(TypeError):
            work()
    with pytest.raises(ValueError, match=f"at most {MOST_TERMS}"):
        gamma(MOST_TERMS + 1, np.float32)


def test_views_write_through_and_copies_do_not():
    x = Enclosure.exact(np.zeros((2, 3), np.float32))
    x[1].T[...] = Enclosure(np.ones(3), np.full(3, 0.5), np.float32)
    assert x.middle.tolist() == [[0, 0, 0], [1, 1, 1]] and x.radius[1].tolist() == [0.5] * 3
    x.copy()[...] = 7
    x.astype("float64")[...] = 7
    xp.ascontiguousarray(x)[...] = 7
    assert x.middle.max() == 1
    x[0] = Enclosure(np.full(3, 1 / 3), np.zeros(3), np.float64)  # rounded as every device rounds it
    assert x.middle[0, 0] == np.float32(1 / 3) and not x.radius[0].any()


def test_rows_that_share_an_id_meet_in_any_order():
    ids, rows = np.array([3, 1, 3, 3, 8]), numbers(8, 5, 2)
    found, exact = aggregate_rows(ids, Enclosure.exact(rows)), aggregate_rows(ids, rows)
    assert found.ids.tolist() == exact.ids.tolist() and holds(found.rows, exact.rows)
    assert holds(found.rows[1], rows[0] + (rows[2] + rows[3])) and not found.rows.radius[[0, 2]].any()


@pytest.mark.parametrize("block", [winograd.BLOCK_BYTES, 1])
@pytest.mark.parametrize("n, side, inputs, outputs, kernel, stride", [
    (2, 6, 3, 4, 3, 1), (2, 7, 2, 3, 3, 1), (3, 9, 17, 19, 3, 1), (1, 8, 1, 4, 3, 1), (3, 9, 17, 19, 3, 2),
    (2, 6, 3, 2, 1, 2)])
def test_convolutions_by_winograd_and_by_patches(monkeypatch, n, side, inputs, outputs, kernel, stride, block):
    """float32 as our kernels compute it on the CPU, whose first three shapes take Winograd's way."""
    for path in (winograd, patches):
        monkeypatch.setattr(path, "BLOCK_BYTES", block)
    x, weight = numbers(9, n, side, side, inputs), numbers(10, kernel, kernel, inputs, outputs)
    result, y = convolve(Enclosure.exact(x), Enclosure.exact(weight), stride), convolve(x, weight, stride)
    grad = numbers(11, *y.shape)
    assert holds(result, y) and result.radius.max() < 3e-4 * inputs
    found = convolve_backward(Enclosure.exact(grad), Enclosure.exact(x), Enclosure.exact(weight), stride)
    for enclosure, value in zip(found, convolve_backward(grad, x, weight, stride), strict=True):
        assert holds(enclosure, value) and enclosure.radius.max() < 0.05
    assert not holds(result, y * np.float32(1.001))


def test_a_wrong_transform_of_winograds_is_seen(monkeypatch):
    x, weight, grad = numbers(9, 3, 9, 9, 17), numbers(10, 3, 3, 17, 19), numbers(11, 3, 9, 9, 19)
    result = convolve(Enclosure.exact(x), Enclosure.exact(weight))
    by_weight = convolve_backward(Enclosure.exact(grad), Enclosure.exact(x), Enclosure.exact(weight))[1]
    wrong = np.array([[1, 0, 0], [0.5, 0.5 * (1 + 1e-2), 0.5], [0.5, -0.5, 0.5], [0, 0, 1]])

    def wrong_tiles(weight, turned, tiles):
        tiles[:] = np.einsum("ua,abio,vb->uvio", wrong, weight, wrong).reshape(tiles.shape)

    def wrong_gradient(tiles, grad):
        grad[:] = np.einsum("ua,uvio,vb->abio", wrong, tiles.reshape(4, 4, *tiles.shape[1:]), wrong)

    monkeypatch.setattr(winograd, "kernel_tiles", wrong_tiles)
    monkeypatch.setattr(winograd, "kernel_gradient", wrong_gradient)
    assert not holds(result, convolve(x, weight)) and not holds(by_weight, convolve_backward(grad, x, weight)[1])


def test_winograds_sums_of_absolute_values():
    """With the transforms' signs put back they are the convolution and its gradient: nothing is left out or twice."""
    x, weight, grad = (numbers(k, *shape, dtype="float64") for k, shape in
                       enumerate([(2, 5, 6, 3), (3, 3, 3, 2), (2, 5, 6, 2)]))
    signed = {"ABSOLUTE_A": [[1, 0], [1, 1], [1, -1], [0, -1]],
              "ABSOLUTE_G": [[1, 0, 0], [0.5, 0.5, 0.5], [0.5, -0.5, 0.5], [0, 0, 1]],
              "ABSOLUTE_B": [[1, 0, -1, 0], [0, 1, 1, 0], [0, -1, 1, 0], [0, 1, 0, -1]]}
    sums = convolution.winograd_magnitude(abs(x), abs(weight))
    assert (sums >= definition.convolve(abs(x), abs(weight), 1, 1)).all()
    with pytest.MonkeyPatch.context() as patch:
        for name, value in signed.items():
            patch.setattr(convolution, name, np.array(value, float))
        assert np.allclose(convolution.winograd_magnitude(x, weight), definition.convolve(x, weight, 1, 1))
        found = convolution.winograd_weight_magnitude(grad, x)
    assert np.allclose(found, definition.convolve_backward(grad, x, weight, 1, 1, False)[1])


def test_a_truth_as_a_number():
    """1 where it holds, 0 where it does not, a ball of both where that is not known."""
    found = (Enclosure(np.array([2.0, -2.0, 0.1]), np.array([1.0, 1.0, 0.2]), "float32") > 0).astype("float32")
    assert found.dtype == np.float32 and found.middle.tolist() == [1, 0, 0.5] and found.radius.tolist() == [0, 0, 0.5]


def test_a_sigmoid_that_is_cut_off():
    """The compiled cell's sigmoid is constant far below zero, NumPy's goes on to zero."""
    gates = np.array([[x] * 4 for x in (-200, -104, -90, -87.5, -86, -60, 86, 200)], np.float32).T.copy()
    enclosed = xp.sigmoid(Enclosure.exact(gates[3]))
    with np.errstate(over="ignore"):
        assert holds(enclosed, 1 / (1 + np.exp(-gates[3])))
    state = np.zeros((4, 1, gates.shape[1]), np.float32)
    cell_forward(gates, np.zeros(4, np.float32), *state)
    assert holds(enclosed, gates[3]) and enclosed.radius[:5].max() < 1e-37


@pytest.mark.parametrize("projected", [False, True])
def test_lstm(projected):
    time, streams, inputs, hidden = 4, 3, 5, 6
    width = 2 if projected else hidden
    arrays = [numbers(12, time, streams, inputs), 0.3 * numbers(13, inputs + width, 4 * hidden),
              numbers(14, 4 * hidden), numbers(15, hidden, width) if projected else None,
              numbers(16, streams, hidden), numbers(17, streams, width)]
    balls = [None if a is None else Enclosure.exact(a) for a in arrays]
    h, tape = lstm_forward(*arrays)
    enclosed, enclosed_tape = lstm_forward(*balls)
    assert holds(enclosed, h) and enclosed.radius.max() < 1e-4
    assert all(holds(ball, value) for ball, value in zip(enclosed_tape.last_state(), tape.last_state(), strict=True))
    dh = numbers(18, *h.shape)
    found = lstm_backward(Enclosure.exact(dh), enclosed_tape, balls[1], balls[3], initial=True)
    exact = lstm_backward(dh, tape, arrays[1], arrays[3], initial=True)
    for enclosure, value in zip(found, exact, strict=True):
        assert (value is None) == (enclosure is None)
        assert value is None or holds(enclosure, value) and enclosure.radius.max() < 0.02
