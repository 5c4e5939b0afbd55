"""The LSTM kernel: compiled cell against its definition, whole sequence against PyTorch; memory, and refusals."""

import numpy as np
import pytest
from numba import njit

from kernels.lstm import Workspace, activations, definition, fast, lstm_backward, lstm_forward
from kernels.lstm.transposes import transpose

U = 2.0**-24  # unit roundoff of float32
SIGMOID_ERROR, TANH_ERROR = 4.1 * U, 5.9 * U  # derived below


@njit
def apply_both(x, s, t):
    for k in range(len(x)):
        s[k] = activations.sigmoid(x[k])
        t[k] = activations.tanh(x[k])


def relative_error(found, exact):
    return np.max(np.abs(found.astype(np.float64) - exact) / np.abs(exact))


def test_activations_are_within_the_derived_bound():
    """Every 601st float32 of the range, against float64.

    Errors in units of U. E = exp(r), e = E - 1, |r| <= 0.3466, so 0.707 <= E <= 1.415.
    r: n * LN2_HIGH and its difference are exact; LN2_LOW and n * LN2_LOW (below 0.027) err by 0.054, the last
    difference by 0.25 (half an ULP below 1/2): 0.31 in all, relative in E. p r^2 <= 0.07 with 3.5 roundings: 0.25;
    adding r: 0.25; truncation of the polynomial 0.05 E, below 0.13 e. Multiplying by 2^n is exact.
    sigmoid: 1 + e rounds by 1 at most, so exp errs by (0.31 + 0.05) + 0.5 / 0.707 + 1 = 2.1; 1 + exp and the division
    round once each: 4.1.
    tanh, n = 0 (r exact): e errs by 3.5 * 0.24 + 1 + 0.13 = 2, e + 2 and the division by 1 each: 4. For n >= 1,
    S = 2^n E - 1 errs by 2^n (0.36 E + 0.5) / S + 1, worst at n = 1, E = 0.707, S = 0.414: 4.7, of which S / (S + 2)
    keeps 2 / (S + 2) = 0.83; with two more roundings 5.9.
    """
    bits = np.arange(0, np.float32(87.0).view(np.int32), 601, dtype=np.int32)
    x = bits.view(np.float32)
    x = np.concatenate([x, -x])
    s, t = np.empty_like(x), np.empty_like(x)
    apply_both(x, s, t)
    exact = x.astype(np.float64)
    assert relative_error(s, 1 / (1 + np.exp(-exact))) <= SIGMOID_ERROR
    normal = np.abs(x) > 1e-37
    assert relative_error(t[normal], np.tanh(exact[normal])) <= TANH_ERROR


def test_activations_at_the_ends():
    x = np.array([0.0, -0.0, 200.0, -200.0, np.inf, -np.inf, np.nan], np.float32)
    s, t = np.empty_like(x), np.empty_like(x)
    apply_both(x, s, t)
    assert s[:2].tolist() == [0.5, 0.5] and s[2] == s[4] == 1 and 0 <= s[3] < 2e-38 and 0 <= s[5] < 2e-38
    assert t[:6].tolist() == [0.0, 0.0, 1.0, -1.0, 1.0, -1.0] and np.signbit(t[1])
    assert np.isnan(s[6]) and np.isnan(t[6])


def check_cell(gates, before, c, c_next, tanh_c, m, sigmoid_bound, tanh_bound):
    """Hold a cell's forward pass against exact activations of ``before``, the gates; the rest is bit for bit."""
    (i, j, f, o), (bi, bj, bf, bo) = np.split(gates, 4), np.split(before, 4)
    for found, x in ((i, bi), (f, bf + before.dtype.type(1)), (o, bo)):
        exact = definition.sigmoid(x.astype(np.float64))
        assert np.all(np.abs(found - exact) <= sigmoid_bound * exact)
    for found, x in ((j, bj), (tanh_c, c_next)):
        exact = np.tanh(x.astype(np.float64))
        assert np.all(np.abs(found - exact) <= tanh_bound * np.abs(exact))
    assert np.array_equal(c_next, f * c + i * j) and np.array_equal(m, o * tanh_c)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("streams, hidden", [(1, 1), (3, 7), (5, 64), (2, 131), (0, 5)])
def test_compiled_cell_against_definition(dtype, streams, hidden):
    """Activations within the derived bound (float64: the C library's and NumPy's, 2 ULP each); the rest bit for bit."""
    random = np.random.default_rng(hidden)

    def normal(*shape):
        return (2 * random.normal(size=shape)).astype(dtype)

    gates, bias = normal(4 * hidden, streams), normal(4 * hidden)
    c, dm, dc = normal(hidden, streams), normal(hidden, streams), normal(hidden, streams)
    before = gates + bias[:, None]
    c_next, tanh_c, m = (np.empty_like(c) for _ in range(3))
    fast.cell_forward(gates, bias, c, c_next, tanh_c, m)
    bounds = (SIGMOID_ERROR, TANH_ERROR) if dtype == np.float32 else (8 * 2.0**-53, 4 * 2.0**-53)
    check_cell(gates, before, c, c_next, tanh_c, m, *bounds)

    dgates, expected, dc_plain = np.empty_like(gates), np.empty_like(gates), dc.copy()
    definition.cell_backward(dm, dc_plain, gates, c, tanh_c, expected)
    fast.cell_backward(dm, dc, gates, c, tanh_c, dgates)
    assert np.array_equal(dgates, expected) and np.array_equal(dc, dc_plain)


def test_the_definition_of_the_cell_is_the_cell_of_the_definition():
    """One step of the sequence's plain version is one call of the cell: the same sums of three terms, turned over."""
    x, kernel, bias, _, c0, h0 = sequence(1, 3, 2, 4, 4, False)
    gates = (h0 @ kernel[2:]).T + (x[0] @ kernel[:2]).T
    c, tanh_c, m = (np.empty((4, 3)) for _ in range(3))
    definition.cell_forward(gates, bias, c0.T, c, tanh_c, m)
    h, last, _ = definition.lstm_forward(x, kernel, bias, None, c0, h0)
    assert np.abs(m.T - h[0]).max() < 50 * 2.0**-53 and np.abs(c.T - last).max() < 50 * 2.0**-53


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("rows, columns", [(0, 3), (1, 1), (7, 9), (8, 16), (19, 8), (33, 40), (16, 32), (41, 27)])
def test_transpose(rows, columns, dtype):
    matrix = np.arange(2 * rows * columns, dtype=dtype).reshape(rows, 2, columns)[:, 1]
    room = np.full((columns + 2, rows + 2), -1, dtype)
    for out in (room[1:-1, 1:-1], np.empty((rows, columns), dtype).T):  # the second: in Fortran's order
        transpose(matrix, out)
        assert np.array_equal(out, matrix.T)
    assert (room == -1).sum() == room.size - matrix.size, "nothing beside the result is written"


def sequence(time, streams, inputs, hidden, width, projected, dtype=np.float64, seed=0):
    """Return random arguments of lstm_forward."""
    random = np.random.default_rng(seed)

    def normal(*shape, scale=0.3):
        return (scale * random.normal(size=shape)).astype(dtype)

    return (normal(time, streams, inputs, scale=1), normal(inputs + width, 4 * hidden), normal(4 * hidden),
            normal(hidden, width) if projected else None, normal(streams, hidden), normal(streams, width))


SHAPES = [(3, 2, 5, 4, 4, False), (4, 3, 5, 7, 2, True)]


def rounding(time, inputs, hidden, width, dtype=np.float64):
    """Return the bound used below: roundings along the longest chain, times the unit, times 2**3 for terms that cancel.

    A step adds inputs + width products, a handful of operations of the cell, and hidden products of the projection;
    weights of deviation 0.3 at these sizes let errors of a step grow by less than 2 a step over at most 6 steps.
    """
    return (max(time, 1) * (inputs + width + hidden + 20)) * 2**6 * 2**3 * np.finfo(dtype).eps / 2


def test_a_workspace_changes_no_bit_and_results_are_new_memory():
    workspace = Workspace()
    kept = []
    for shape in (SHAPES[1], SHAPES[0], SHAPES[1]):
        arguments = sequence(*shape, dtype=np.float32)
        dh = np.ones((*shape[:2], shape[4]), np.float32)
        results = []
        for work in (None, workspace):
            h, tape = lstm_forward(*arguments, work)
            results.append([h.copy(), *lstm_backward(dh, tape, arguments[1], arguments[3])])
        assert all(a is b is None or np.array_equal(a, b) for a, b in zip(*results))
        kept.append(results[1])
    for early, late in zip(kept[0], kept[2]):
        assert np.array_equal(early, late) and not np.shares_memory(early, late)


@pytest.mark.parametrize("which, name", [(1, "kernel"), (2, "bias"), (3, "projection"), (4, "c0"), (5, "h0")])
def test_shapes_and_dtypes_that_do_not_fit_are_named(which, name):
    arguments = list(sequence(*SHAPES[1]))
    good = arguments[which]
    arguments[which] = np.concatenate([good, good])
    with pytest.raises(ValueError, match=f"{name}.* has shape|wide"):
        lstm_forward(*arguments)
    arguments[which] = good.astype(np.float32)
    with pytest.raises(ValueError, match=f"{name} is float32 and x is float64"):
        lstm_forward(*arguments)


def test_without_projection_the_widths_must_be_equal():
    x, kernel, bias, _, c0, h0 = sequence(*SHAPES[1])
    with pytest.raises(ValueError, match="without a projection"):
        lstm_forward(x, kernel, bias, None, c0, h0)


@pytest.mark.parametrize("shape", [SHAPES[0], (5, 3, 4, 6, 2, True)])
def test_against_torch(shape):
    """torch.nn.LSTM has gates i, f, g, o and no forget bias: rows permuted, 1 added to its bias."""
    torch = pytest.importorskip("torch")
    time, streams, inputs, hidden, width, projected = shape
    x, kernel, bias, projection, c0, h0 = sequence(*shape)
    order = np.concatenate([np.arange(hidden) + gate * hidden for gate in (0, 2, 1, 3)])
    lstm = torch.nn.LSTM(inputs, hidden, proj_size=width if projected else 0).double()
    shifted = bias + np.repeat([0.0, 0.0, 1.0, 0.0], hidden)
    with torch.no_grad():
        lstm.weight_ih_l0.copy_(torch.from_numpy(kernel[:inputs].T[order]))
        lstm.weight_hh_l0.copy_(torch.from_numpy(kernel[inputs:].T[order]))
        lstm.bias_ih_l0.copy_(torch.from_numpy(shifted[order]))
        lstm.bias_hh_l0.zero_()
        if projected:
            lstm.weight_hr_l0.copy_(torch.from_numpy(projection.T))
    tensors = [torch.from_numpy(a).requires_grad_() for a in (x, h0[None], c0[None])]
    expected, _ = lstm(tensors[0], (tensors[1], tensors[2]))
    dh = np.random.default_rng(3).normal(size=expected.shape)
    expected.backward(torch.from_numpy(dh))

    h, tape = lstm_forward(x, kernel, bias, projection, c0, h0)
    dx, dkernel, dbias, dprojection, dc0, dh0 = lstm_backward(dh, tape, kernel, projection, initial=True)
    back = np.argsort(order)
    pairs = [(h, expected.detach()), (dx, tensors[0].grad), (dh0, tensors[1].grad[0]), (dc0, tensors[2].grad[0]),
             (dkernel[:inputs], lstm.weight_ih_l0.grad[back].T), (dkernel[inputs:], lstm.weight_hh_l0.grad[back].T),
             (dbias, lstm.bias_ih_l0.grad[back])]
    if projected:
        pairs.append((dprojection, lstm.weight_hr_l0.grad.T))
    bound = rounding(time, inputs, 4 * hidden + time * streams, width)
    for found, reference in pairs:
        reference = reference.numpy()
        assert np.abs(found - reference).max() <= bound * max(1, np.abs(reference).max())
