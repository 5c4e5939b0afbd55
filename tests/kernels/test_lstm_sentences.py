"""The LSTM over sequences: plain ones, lengths, gradients of the last state, and an input that its own output makes."""

import numpy as np
import pytest

from kernels.lstm import definition, lstm_backward, lstm_forward
from models.gradient_check import ridders

CASES = [(5, 4, False), (5, 4, True), (1, 3, False), (4, 1, True)]
each_case = pytest.mark.parametrize("time, streams, projected", [*CASES, (0, 3, True)])
each_kind = pytest.mark.parametrize("fed, ragged", [(False, False), (False, True), (True, True)])


class Mirror:
    """Feedback that is linear in h, and notes in which order it is asked."""

    columns = 2

    def __init__(self, weight):
        self.weight, self.asked, self.dweight = weight, [], np.zeros_like(weight)
        self.read = {}

    def forward(self, t, h):
        self.asked.append(t)
        self.read[t] = h.copy()
        return h @ self.weight

    def backward(self, t, d):
        self.asked.append(~t)
        if d is None:
            return np.zeros_like(self.read[t])
        self.dweight += self.read[t].T @ d
        return d @ self.weight.T


def drawn(time, streams, projected, seed=0, place=np.asarray):
    """Return (arguments of lstm_forward, lengths, feedback's weight): 5 inputs, 7 hidden, 4 or 7 wide."""
    random, hidden, width = np.random.default_rng(seed), 7, 4 if projected else 7
    shapes = [(time, streams, 5), (5 + width, 4 * hidden), (4 * hidden,), (hidden, width), (streams, hidden),
              (streams, width), (width, Mirror.columns)]
    *arrays, weight = [place(0.4 * random.normal(size=shape)) for shape in shapes]
    if not projected:
        arrays[3] = None
    lengths = np.random.default_rng(7).integers(min(time, 1), time + 1, streams)
    lengths[0] = time
    return arrays, lengths, weight


def run(arrays, lengths, weight, fed, plain=False):
    """Return (h, c and h at the end)."""
    feedback = Mirror(weight) if fed else None
    if plain:
        h, *last = definition.lstm_forward(*arrays, lengths, feedback)
        return h, *last
    h, tape = lstm_forward(*arrays, lengths=lengths, feedback=feedback)
    return h, *tape.last_state()


@each_kind
@pytest.mark.parametrize("time, streams, projected", CASES)
def test_sequence_against_the_definition(time, streams, projected, fed, ragged):
    arrays, lengths, weight = drawn(time, streams, projected)
    arguments = arrays, lengths if ragged else None, weight, fed
    for found, expected in zip(run(*arguments), run(*arguments, plain=True)):
        assert np.abs(found - expected).max() <= 2.0**-40  # some hundred roundings of numbers below 4, of 2**-53 each


@pytest.mark.parametrize("time, streams, projected", CASES)
def test_a_sentence_in_a_batch_is_the_sentence_alone(time, streams, projected):
    arrays, lengths, weight = drawn(time, streams, projected)
    h, c_end, h_end = run(arrays, lengths, weight, False)
    x, kernel, bias, projection, c0, h0 = arrays
    for s, length in enumerate(lengths):
        alone, tape = lstm_forward(x[:length, s:s + 1], kernel, bias, projection, c0[s:s + 1], h0[s:s + 1])
        c_last, h_last = tape.last_state()
        assert np.abs(h[:length, s] - alone[:, 0]).max() <= 2.0**-44
        assert np.abs(c_end[s] - c_last[0]).max() <= 2.0**-44 and np.abs(h_end[s] - h_last[0]).max() <= 2.0**-44
        assert (h[length:, s] == h[length - 1, s]).all()


@each_kind
@each_case
def test_gradients_by_differences(time, streams, projected, fed, ragged):
    """Of every argument, feedback's weight among them, by a loss of every h and of the last state."""
    arrays, lengths, weight = drawn(time, streams, projected)
    lengths = lengths if ragged else None
    moves, _, weight_move = drawn(time, streams, projected, seed=1)
    h, *last = run(arrays, lengths, weight, fed)
    dh, dc_end, dh_end = (np.random.default_rng(k).normal(size=a.shape) for k, a in enumerate((h, *last)))

    def loss(step):
        moved = [None if a is None else a + step * m for a, m in zip(arrays, moves)]
        found = run(moved, lengths, weight + step * weight_move, fed)
        return float(sum(np.vdot(d, a) for d, a in zip((dh, dc_end, dh_end), found)))

    feedback = Mirror(weight) if fed else None
    _, tape = lstm_forward(*arrays, lengths=lengths, feedback=feedback)
    gradients = list(lstm_backward(dh, tape, arrays[1], arrays[3], initial=True, last=(dc_end, dh_end)))
    if fed:
        assert feedback.asked == [*range(time), *(~t for t in reversed(range(time)))]
        gradients[0][1:, :, -2:] = 0  # nobody reads what stands there
    by_gradient = sum(np.vdot(g, m) for g, m in zip(gradients, moves) if m is not None)
    by_gradient += np.vdot(feedback.dweight, weight_move) if fed else 0.0
    by_differences, tolerance = ridders(loss)
    assert abs(by_gradient - by_differences) <= tolerance < 1e-6
    assert [getattr(g, "shape", None) for g in gradients] == [getattr(a, "shape", None) for a in arrays]


@pytest.mark.big
@pytest.mark.parametrize("fed", [False, True])
@pytest.mark.parametrize("time, streams, projected", [*CASES[:2], (0, 3, True)])
def test_a_gpu_does_the_same(gpu, time, streams, projected, fed):
    results = []
    for place in (np.asarray, gpu.asarray):
        arrays, lengths, weight = drawn(time, streams, projected, place=place)
        feedback = OnDevice(weight) if fed else None
        h, tape = lstm_forward(*arrays, lengths=lengths, feedback=feedback)
        last = tape.last_state()
        results.append([h, *last, *lstm_backward(h * 2, tape, arrays[1], arrays[3], initial=True, last=last)])
    for ours, expected in zip(*results):
        assert expected is ours is None or np.abs(ours - expected.get()).max(initial=0) <= 1e-12


class OnDevice(Mirror):
    """The same on a GPU, without its weight's gradient."""

    def __init__(self, weight):
        self.weight = weight

    def forward(self, t, h):
        return h @ self.weight

    def backward(self, t, d):
        return 0 * self.weight.T[:1] if d is None else d @ self.weight.T


def test_lengths_that_do_not_fit_are_named():
    arrays, _, _ = drawn(3, 2, False)
    with pytest.raises(ValueError, match=r"lengths has shape \(3,\), expected \(2,\)"):
        lstm_forward(*arrays, lengths=np.array([1, 2, 3]))
