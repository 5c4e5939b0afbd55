"""Optimizer updates: the textbook in scalars, the definitions and each version agree to the bit."""

import math

import numpy as np
import pytest

from kernels.arrays import to_numpy
from kernels.cuda.kernel import Kernel
from kernels.random import key_of, uniform
from kernels.update import (
    ELEMENTWISE, definition, initial_state, move_each, update_dense, update_dense_each, update_rows,
)

NAMES = list(ELEMENTWISE)
CLIPS_AND_DECAYS = [(1.0, 0.0), (0.37, 0.0), (0.37, 1e-3)]


def draw(name, *shape, dtype="float32"):
    u = uniform(key_of("update", name), math.prod(shape)) - 0.5
    return (u * 2.0 ** np.round(20 * u)).reshape(shape).astype(dtype)


def started(name, parameter, steps=2):
    """Return a state that has seen a few gradients."""
    state = initial_state(name, parameter)
    for step in range(1, steps + 1):
        gradient = draw(("warm", step), *parameter.shape, dtype=parameter.dtype)
        update_dense(name, parameter.copy(), state, gradient, 0.1, step=step)
    return state


def copied(arrays, place=np):
    return {name: place.asarray(array.copy()) for name, array in arrays.items()}


def assert_same_bits(a, b):
    assert a.dtype == b.dtype and a.shape == b.shape and to_numpy(a).tobytes() == to_numpy(b).tobytes()


def assert_same(parameter, state, expected, expected_state):
    """A parameter and its state have the bits of others."""
    assert_same_bits(parameter, expected)
    for slot in state:
        assert_same_bits(state[slot], expected_state[slot])


def textbook(name, p, slots, g, rate, scale, decay, step):
    """One step for one element: p, g and slots are scalars of one dtype, so that every operation rounds to it."""
    real = type(p)
    g = g * real(scale)
    if decay and name == "adamw":
        p = p * real(1 - rate * decay)
    elif decay:
        g = g + real(decay) * p
    if name == "sgd":
        return p - real(rate) * g, []
    if name in ("momentum", "nesterov"):
        v = real(0.9) * slots[0] + g
        return p - real(rate) * (g + real(0.9) * v if name == "nesterov" else v), [v]
    if name == "adagrad":
        a = slots[0] + g * g
        return p - (real(rate) * g) / (np.sqrt(a) + real(0.0)), [a]
    m = real(0.9) * slots[0] + real(1 - 0.9) * g
    v = real(0.999) * slots[1] + real(1 - 0.999) * (g * g)
    root = np.sqrt(v) * real(1 / math.sqrt(1 - 0.999**step)) + real(1e-8)
    return p - (real(rate / (1 - 0.9**step)) * m) / root, [m, v]


def each_case(test):
    """Run a test for each optimizer, with and without clipping and decay, and each dtype."""
    for names, values in (("dtype", ["float32", "float64"]), ("scale, decay", CLIPS_AND_DECAYS), ("name", NAMES)):
        test = pytest.mark.parametrize(names, values)(test)
    return test


@each_case
def test_dense_update_is_the_textbook_element_by_element(place, name, scale, decay, dtype):
    parameter, gradient = draw("p", 5, 7, dtype=dtype), draw("g", 5, 7, dtype=dtype)
    state = started(name, parameter)
    expected, slots = parameter.copy(), copied(state)
    for i in np.ndindex(5, 7):
        before = [array[i] for array in slots.values()]
        expected[i], after = textbook(name, parameter[i], before, gradient[i], 0.2, scale, decay, 3)
        for array, value in zip(slots.values(), after):
            array[i] = value
    ours, state = place.asarray(parameter), copied(state, place)
    update_dense(name, ours, state, place.asarray(gradient), 0.2, step=3, scale=scale, decay=decay)
    assert_same(ours, state, expected, slots)


@each_case
def test_rows_hold_the_definition(place, name, scale, decay, dtype):
    for count, width in ((0, 5), (1, 1), (7, 3), (3, 0), *[(33, 17), (100, 128)] * (place is np)):
        table = draw("table", 101, width, dtype=dtype)
        state, rows = started(name, table), draw("rows", count, width, dtype=dtype)
        ids = np.argsort(uniform(key_of("ids"), 101), kind="stable")[:count].astype(np.int64)
        options = ELEMENTWISE[name].options | ({"step": 3} if ELEMENTWISE[name].clock else {})
        for numbers in [ids] if place is np else [ids, place.asarray(ids)]:
            ours, slots = place.asarray(table.copy()), copied(state, place)
            update_rows(name, ours, slots, numbers, place.asarray(rows), 0.2, step=3, scale=scale, decay=decay)
            expected, others = table.copy(), copied(state)
            definition.update_rows(getattr(definition, name), expected, list(others.values()), ids, rows, 0.2,
                                   scale=scale, decay=decay, **options)
            assert_same(ours, slots, expected, others)


@each_case
def test_several_dense_updates_are_each_the_definitions(gpu, name, scale, decay, dtype):
    shapes = [(3, 4), (5,), (1, 1), (20,), (0, 3), (7,), (2, 2), (9,), (6, 2), (8,)]
    parameters, gradients = ([draw(f"{what}{n}", *shape, dtype=dtype) for n, shape in enumerate(shapes)]
                             for what in "pg")
    states = [started(name, parameter) for parameter in parameters]
    factors = [(scale, decay), (1.0, 0.0)] * 5  # of every other one
    ours = [(gpu.asarray(p), copied(state, gpu), gpu.asarray(g), *factor)
            for p, state, g, factor in zip(parameters, states, gradients, factors)]
    update_dense_each(name, ours, 0.2, step=3)
    for (there, slots, *_), p, state, g, (s, d) in zip(ours, parameters, states, gradients, factors):
        update_dense(name, p, state, g, 0.2, step=3, scale=s, decay=d)
        assert_same(there, slots, p, state)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_statistics_move_towards_their_estimates(place, dtype):
    values, estimates = ([draw(f"{kind}{n}", n, dtype=dtype) for n in (3, 1, 16)] for kind in "ve")
    there = [place.asarray(value.copy()) for value in values]
    move_each(zip(there, map(place.asarray, estimates)), 0.1)
    for ours, value, estimate in zip(there, values, estimates):
        assert_same_bits(ours, value + value.dtype.type(0.1) * (estimate - value))


@pytest.mark.parametrize("name", NAMES)
def test_an_element_has_one_result_dense_or_by_row_wherever_it_lies(name):
    table = draw("table", 9, 37)
    state, gradient = started(name, table), draw("g", 9, 37)
    dense, dense_state = table.copy(), copied(state)
    update_dense(name, dense, dense_state, gradient, 0.2, step=3, decay=1e-3)
    for ids in (np.arange(9), np.arange(9)[::-1].copy(), np.array([4, 0, 8])):
        room = np.empty(9 * 37 + 1, np.float32)
        rowwise, rowwise_state = room[1:].reshape(9, 37), copied(state)  # another alignment, too
        rowwise[...] = table
        update_rows(name, rowwise, rowwise_state, ids, gradient[ids], 0.2, step=3, decay=1e-3)
        for mine, whole, before in zip([rowwise, *rowwise_state.values()], [dense, *dense_state.values()],
                                       [table, *state.values()]):
            untouched = np.setdiff1d(np.arange(9), ids)
            assert_same_bits(mine[ids], whole[ids])
            assert_same_bits(mine[untouched], before[untouched])


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("shape", [(), (0,), (5,), (2, 3, 4)])
def test_dense_update_takes_any_shape_and_layout(name, shape):
    parameter, gradient = draw("p", *shape), draw("g", *shape)
    turned, turned_gradient = parameter.T.copy().T, gradient.T.copy().T
    state, turned_state = initial_state(name, parameter), initial_state(name, turned)
    for step in (1, 2):
        update_dense(name, parameter, state, gradient, 0.2, step=step)
        update_dense(name, turned, turned_state, turned_gradient, 0.2, step=step)
    assert parameter.shape == shape
    assert_same_bits(np.ascontiguousarray(turned), np.ascontiguousarray(parameter))


def test_initial_state_is_what_the_authors_start_from():
    parameter = np.ones((2, 3), np.float32)
    assert initial_state("sgd", parameter) == {}
    assert (initial_state("adagrad", parameter)["accumulator"] == 1.0).all()
    assert list(initial_state("adam", parameter)) == ["first", "second"]
    assert all(a.dtype == np.float32 for name in NAMES for a in initial_state(name, parameter).values())


def test_no_decay_means_nothing_is_added_not_even_plus_zero():
    zeros = np.full((1, 4), -0.0, np.float32)
    state = {"velocity": zeros.copy()}
    update_rows("momentum", np.ones((1, 4), np.float32), state, np.array([0]), zeros, 1.0, step=1)
    assert np.signbit(state["velocity"]).all()


def test_options_reach_the_update():
    parameter, gradient = np.zeros(1), np.ones(1)
    state = initial_state("momentum", parameter)
    for step in (1, 2):
        update_dense("momentum", parameter, state, gradient, 1.0, step=step, mu=0.5)
    assert state["velocity"].tolist() == [1.5] and parameter.tolist() == [-2.5]


def arguments(place=np, **changes):
    table = place.ones((4, 2), np.float32)
    call = {"name": "adagrad", "table": table, "state": initial_state("adagrad", table), "rate": 0.1, "step": 1}
    arrays = {"ids": np.array([1, 3]), "rows": np.ones((2, 2), np.float32)} | changes
    return call | {name: place.asarray(value) if isinstance(value, np.ndarray) else value
                   for name, value in arrays.items()}


@pytest.mark.parametrize(
    "changes, error, words",
    [
        ({"name": "rmsprop"}, KeyError, "choose one of"),
        ({"state": {}}, ValueError, "initial_state"),
        ({"state": {"accumulator": np.ones((4, 2))}}, TypeError, "accumulator is float64"),
        ({"rows": np.ones((2, 3), np.float32)}, ValueError, "rows has shape"),
        ({"rows": np.ones((1, 2), np.float32)}, ValueError, "rows has shape"),
        ({"rows": np.ones((2, 2))}, TypeError, "rows is float64"),
        ({"ids": np.array([1, 4])}, IndexError, "4 rows"),
        ({"ids": np.array([-1, 3])}, IndexError, "4 rows"),
        ({"ids": np.array([3, 3])}, ValueError, "aggregate_rows"),
        ({"ids": np.array([1, 3], np.int32)}, TypeError, "int64"),
        ({"step": 0}, ValueError, "step"),
        ({"mu": 0.5}, TypeError, "no option"),
    ],
)
def test_row_update_refuses_and_changes_nothing(place, changes, error, words):
    call = arguments(place, **changes)
    with pytest.raises(error, match=words):
        update_rows(**call)
    assert (call["table"] == 1).all()


def test_ids_may_come_in_any_order_if_they_do_not_repeat():
    ahead, back = arguments(), arguments(ids=np.array([3, 1]))
    update_rows(**ahead)
    update_rows(**back)
    assert_same_bits(ahead["table"], back["table"])
    with pytest.raises(ValueError, match="aggregate_rows"):
        update_rows(**arguments(ids=np.array([3, 1, 3]), rows=np.ones((3, 2), np.float32)))


def test_half_precision_goes_by_the_definition():
    parameter = np.ones((3, 2), np.float16)
    state, rows = initial_state("adagrad", parameter), np.ones((1, 2), np.float16)
    update_rows("adagrad", parameter, state, np.array([1]), rows, 0.5, step=1)
    assert parameter.dtype == np.float16 and parameter[0, 0] == 1 and parameter[1, 0] < 1


@pytest.mark.parametrize("name", NAMES)
def test_torch_takes_the_same_steps(name):
    """Five steps in float64; the bound is 2**-45 of a step's size, room for 5 steps of some 20 roundings of 2**-53."""
    torch = pytest.importorskip("torch")
    make = {
        "sgd": lambda p: torch.optim.SGD([p], lr=0.2, weight_decay=0.01),
        "momentum": lambda p: torch.optim.SGD([p], lr=0.2, momentum=0.9, weight_decay=0.01),
        "nesterov": lambda p: torch.optim.SGD([p], lr=0.2, momentum=0.9, weight_decay=0.01, nesterov=True),
        "adamw": lambda p: torch.optim.AdamW([p], lr=0.2, weight_decay=0.01),
        "adagrad": lambda p: torch.optim.Adagrad([p], lr=0.2, initial_accumulator_value=1.0, eps=0, weight_decay=0.01),
        "adam": lambda p: torch.optim.Adam([p], lr=0.2, weight_decay=0.01),
    }[name]
    parameter = draw("p", 40, dtype="float64")
    theirs = torch.nn.Parameter(torch.from_numpy(parameter.copy()))
    optimizer, state = make(theirs), initial_state(name, parameter)
    for step in range(1, 6):
        gradient = draw(("g", step), 40, dtype="float64")
        theirs.grad = torch.from_numpy(gradient.copy())
        optimizer.step()
        update_dense(name, parameter, state, gradient, 0.2, step=step, decay=0.01)
    largest = max(1.0, float(np.abs(parameter).max()))
    assert np.abs(theirs.detach().numpy() - parameter).max() <= 2.0**-45 * largest


def test_an_update_is_one_launch_and_sends_the_ids_alone(gpu, standin, monkeypatch):
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
