"""Optimizer updates on a GPU hold the definitions' bits, dense and by row, for any numbers."""

import numpy as np
import pytest
from test_update import draw, started

from kernels.cuda.kernel import Kernel
from kernels.update import ELEMENTWISE, initial_state, move_each, update_dense, update_dense_each, update_rows

CASES = [(name, scale, decay, dtype) for name in ELEMENTWISE for scale, decay in ((1.0, 0.0), (0.37, 1e-3))
         for dtype in ("float32", "float64")]


def assert_same(ours, theirs):
    assert ours.dtype == theirs.dtype and ours.get().tobytes() == theirs.tobytes()


@pytest.mark.parametrize("name, scale, decay, dtype", CASES)
def test_dense_update_holds_the_definition(gpu, name, scale, decay, dtype):
    parameter, gradient = draw("p", 7, 13, dtype=dtype), draw("g", 7, 13, dtype=dtype)
    state = started(name, parameter)
    ours, slots = gpu.asarray(parameter), {slot: gpu.asarray(array) for slot, array in state.items()}
    update_dense(name, ours, slots, gpu.asarray(gradient), 0.2, step=3, scale=scale, decay=decay)
    update_dense(name, parameter, state, gradient, 0.2, step=3, scale=scale, decay=decay)
    assert_same(ours, parameter)
    for slot in state:
        assert_same(slots[slot], state[slot])


@pytest.mark.parametrize("on_gpu", [False, True])
@pytest.mark.parametrize("name, scale, decay, dtype", CASES)
def test_row_update_holds_the_definition(gpu, name, scale, decay, dtype, on_gpu):
    table, rows = draw("t", 30, 5, dtype=dtype), draw("r", 4, 5, dtype=dtype)
    state, ids = started(name, table), np.array([29, 3, 0, 17])
    ours, slots = gpu.asarray(table), {slot: gpu.asarray(array) for slot, array in state.items()}
    update_rows(name, ours, slots, gpu.asarray(ids) if on_gpu else ids, gpu.asarray(rows), 0.2, step=3, scale=scale,
                decay=decay)
    update_rows(name, table, state, ids, rows, 0.2, step=3, scale=scale, decay=decay)
    assert_same(ours, table)
    for slot in state:
        assert_same(slots[slot], state[slot])


@pytest.mark.parametrize("name, scale, decay, dtype", CASES)
def test_several_dense_updates_are_each_the_definitions(gpu, name, scale, decay, dtype):
    shapes = [(3, 4), (5,), (1, 1), (20,), (0, 3), (7,), (2, 2), (9,), (6, 2), (8,)]
    parameters = [draw(f"p{n}", *shape, dtype=dtype) for n, shape in enumerate(shapes)]
    gradients = [draw(f"g{n}", *shape, dtype=dtype) for n, shape in enumerate(shapes)]
    states = [started(name, parameter) for parameter in parameters]
    factors = [(scale, decay), (1.0, 0.0)] * 5  # of every other one
    ours = [(gpu.asarray(p), {slot: gpu.asarray(a) for slot, a in state.items()}, gpu.asarray(g), *factor)
            for p, state, g, factor in zip(parameters, states, gradients, factors)]
    update_dense_each(name, ours, 0.2, step=3)
    for (there, slots, *_), p, state, g, (s, d) in zip(ours, parameters, states, gradients, factors):
        update_dense(name, p, state, g, 0.2, step=3, scale=s, decay=d)
        assert_same(there, p)
        for slot in state:
            assert_same(slots[slot], state[slot])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_statistics_move_towards_their_estimates(gpu, dtype):
    values, estimates = ([draw(f"{kind}{n}", n, dtype=dtype) for n in (3, 1, 16)] for kind in "ve")
    there = [gpu.asarray(value) for value in values]
    move_each(zip(there, map(gpu.asarray, estimates)), 0.1)
    move_each(zip(values, estimates), 0.1)
    for ours, value, n in zip(there, values, (3, 1, 16)):
        before = draw(f"v{n}", n, dtype=dtype)
        assert_same(ours, value)
        assert np.array_equal(value, before + value.dtype.type(0.1) * (draw(f"e{n}", n, dtype=dtype) - before))


def test_nothing_else_is_touched_and_no_rows_are_no_update(gpu):
    table = gpu.asarray(draw("t", 6, 3))
    before = table.get()
    update_rows("sgd", table, {}, np.array([2]), gpu.ones((1, 3), np.float32), 0.5, step=1)
    assert np.flatnonzero((table.get() != before).any(axis=1)).tolist() == [2]
    update_rows("sgd", table, {}, np.empty(0, np.int64), gpu.ones((0, 3), np.float32), 0.5, step=1)


def test_ids_that_repeat_or_are_out_of_range_are_refused(gpu):
    table, rows = gpu.zeros((4, 2), np.float32), gpu.ones((2, 2), np.float32)
    for place in (np.asarray, gpu.asarray):
        with pytest.raises(ValueError, match="repeat"):
            update_rows("sgd", table, {}, place(np.array([1, 1])), rows, 0.5, step=1)
        with pytest.raises(IndexError, match="4 rows"):
            update_rows("sgd", table, {}, place(np.array([1, 4])), rows, 0.5, step=1)


def test_an_update_is_one_launch_and_sends_the_ids_alone(gpu, monkeypatch):
    standin = gpu.__dict__.get("standin") or pytest.skip("only the stand-in counts transfers")
    launches, launch = [], Kernel.__call__
    monkeypatch.setattr(Kernel, "__call__", lambda *args: (launches.append(args[0].name), launch(*args)))
    table, rows = gpu.zeros((4, 2), np.float32), gpu.ones((2, 2), np.float32)
    state = initial_state("adam", table)
    update_dense("adam", table, state, gpu.ones((4, 2), np.float32), 0.1, step=1)  # makes what it keeps
    with standin.counting() as count:
        update_dense("adam", table, state, gpu.ones((4, 2), np.float32), 0.1, step=1)
        assert not count.all
        update_rows("adam", table, state, np.array([0, 3]), rows, 0.1, step=1)
    assert [one.kind for one in count.all] == ["to_device"] and launches == ["adam_each", "adam_each", "adam_rows"]
