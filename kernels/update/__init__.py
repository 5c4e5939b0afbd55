"""The optimizers' updates, dense and by row. A row update touches only its rows, also in the state (design.md, I3).

``OPTIMIZERS[name].state`` gives the names and initial values of the state arrays that an optimizer keeps for a
parameter. ``update_dense`` and ``update_rows`` apply one step of an elementwise optimizer in place.
"""

from collections import defaultdict
from dataclasses import dataclass
from typing import Callable

import numpy as np

from kernels.arrays import array_module, is_float_cuda, is_float_numpy, to_device
from kernels.update import cuda, definition, fast
from kernels.update.definition import adam_scalars

ONLY_ROW = np.zeros(1, np.int64)


@dataclass(frozen=True)
class OptionBound:
    """The allowed values of an option: in words, and as a function of a number."""

    words: str
    holds: Callable[[float], bool]


SHARE = OptionBound("at least 0 and below 1", lambda x: 0 <= x < 1)
NOT_NEGATIVE = OptionBound("at least 0", lambda x: x >= 0)
POSITIVE = OptionBound("above 0", lambda x: x > 0)


@dataclass(frozen=True)
class Optimizer:
    """The state and the options of an optimizer.

    state: name -> initial value.  options: name -> default.  Both are in the order of the definition's arguments.
    bounds: name of each option -> its allowed values. Callers check options that come from a user.
    """

    state: dict[str, float]
    options: dict[str, float]
    bounds: dict[str, OptionBound]


@dataclass(frozen=True)
class UpdateRule(Optimizer):
    """An optimizer that updates each element by itself: its definition and its kernels.

    scalars(rate, **options): the scalar arguments of the kernels, in their order.
    clock: whether the step's number is one of the options.  decoupled: whether weight decay moves the parameter
    (adamw).
    """

    define: Callable
    fast: Callable
    cuda_rows: Callable
    cuda_each: Callable
    scalars: Callable = lambda rate, **options: (rate, *options.values())
    clock: bool = False
    decoupled: bool = False


def adam_in_order(rate, *, step, beta1, beta2, epsilon):
    """Return the scalars of adam's kernels: each beta and 1 - beta, rate, correction and epsilon. Local."""
    return beta1, 1 - beta1, beta2, 1 - beta2, *adam_scalars(rate, beta1, beta2, step), epsilon


MOMENTUM = {"velocity": 0.0}, {"mu": 0.9}, {"mu": SHARE}
ADAM = ({"first": 0.0, "second": 0.0}, {"beta1": 0.9, "beta2": 0.999, "epsilon": 1e-8},
        {"beta1": SHARE, "beta2": SHARE, "epsilon": POSITIVE})  # above 0: avoids 0 / 0 without a gradient
ELEMENTWISE = {
    "sgd": UpdateRule({}, {}, {}, definition.sgd, fast.sgd, cuda.sgd_rows, cuda.sgd_each),
    "momentum": UpdateRule(*MOMENTUM, definition.momentum, fast.momentum, cuda.momentum_rows, cuda.momentum_each,
                           lambda rate, mu: (rate, mu, 0)),
    "nesterov": UpdateRule(*MOMENTUM, definition.nesterov, fast.momentum, cuda.momentum_rows, cuda.momentum_each,
                           lambda rate, mu: (rate, mu, 1)),
    "adagrad": UpdateRule({"accumulator": 1.0}, {"epsilon": 0.0}, {"epsilon": NOT_NEGATIVE}, definition.adagrad,
                          fast.adagrad, cuda.adagrad_rows, cuda.adagrad_each),
    "adam": UpdateRule(*ADAM, definition.adam, fast.adam, cuda.adam_rows, cuda.adam_each, adam_in_order, clock=True),
    "adamw": UpdateRule(*ADAM, definition.adamw, fast.adam, cuda.adam_rows, cuda.adam_each, adam_in_order, clock=True,
                        decoupled=True),
}
LAYERWISE = {
    "lars": Optimizer(ELEMENTWISE["momentum"].state, {"mu": 0.9, "trust": 0.001}, {"mu": SHARE, "trust": POSITIVE}),
    "lamb": Optimizer(ELEMENTWISE["adam"].state, {**ELEMENTWISE["adam"].options, "epsilon": 1e-6},
                      ELEMENTWISE["adam"].bounds),
}
"""Optimizers whose steps depend on the norm of each variable; ``refimpl.training.step.layerwise`` applies them."""
OPTIMIZERS = ELEMENTWISE | LAYERWISE


def initial_state(name, parameter) -> dict:
    """Return the optimizer's state for ``parameter`` before its first step: state name -> new array. Local."""
    xp = array_module(parameter)
    return {slot: xp.full_like(parameter, value) for slot, value in OPTIMIZERS[name].state.items()}


def update_dense(name, parameter, state, gradient, rate, *, step, scale=1.0, decay=0.0, **options):
    """Apply one step of optimizer ``name`` to ``parameter`` and ``state`` in place. Local.

    parameter, gradient, every array of ``state`` (see ``initial_state``): one shape, one dtype.
    rate: learning rate.  step: global step, from 1 (used by adam).  scale: clip factor, multiplies the gradient first.
    decay: weight decay, adds decay * parameter to the scaled gradient, except for adamw.
    options: see ``ELEMENTWISE[name].options``.
    Raises ValueError or TypeError if shapes or dtypes differ, KeyError if the optimizer is unknown.
    """
    optimizer, slots = _optimizer(name), _slots(name, parameter, state)
    _check_alike(parameter, gradient, "gradient", parameter.shape)
    known, arrays = _options(name, step, options), (parameter, *slots, gradient)
    whole = all([a.flags.c_contiguous for a in arrays])
    if whole and is_float_numpy(*arrays):
        *arrays, gradient = (a.reshape(1, -1) for a in arrays)
        optimizer.fast(*arrays, ONLY_ROW, gradient, *_numbers(optimizer, parameter, rate, known, scale, decay))
    elif whole and is_float_cuda(*arrays):
        update_dense_each(name, [(parameter, state, gradient, scale, decay)], rate, step=step, **options)
    else:
        optimizer.define(parameter, *slots, gradient, rate, **known, scale=scale, decay=decay)


def update_dense_each(name, items, rate, *, step, **options):
    """Apply ``update_dense`` to items (parameter, state, gradient, scale, decay); on a GPU in few launches. Local."""
    quick = defaultdict(list)  # dtype -> arguments of one launch for each variable
    for parameter, state, gradient, scale, decay in items:
        arrays = (parameter, *_slots(name, parameter, state), gradient)
        if is_float_cuda(*arrays) and all(a.flags.c_contiguous for a in arrays):
            _check_alike(parameter, gradient, "gradient", parameter.shape)
            real = parameter.dtype.type
            decay, decays = _decay(ELEMENTWISE[name], rate, decay)
            quick[real].append((gradient.size, *arrays, real(scale), real(decay), decays))
        else:
            update_dense(name, parameter, state, gradient, rate, step=step, scale=scale, decay=decay, **options)
    for real, some in quick.items():
        optimizer = ELEMENTWISE[name]
        optimizer.cuda_each(some, *map(real, optimizer.scalars(rate, **_options(name, step, options))))


def move_each(pairs, rate):
    """Move statistics: values += rate * (estimate - values), for (values, estimate) in pairs. Local."""
    pairs = list(pairs)
    for dtype in {values.dtype: None for values, _ in pairs}:
        some = [pair for pair in pairs if pair[0].dtype == dtype]
        if all(is_float_cuda(*pair) and all(a.flags.c_contiguous for a in pair) for pair in some):
            cuda.move_each([(values.size, values, estimate) for values, estimate in some], dtype.type(rate))
        else:
            for values, estimate in some:
                values += dtype.type(rate) * (estimate - values)


def update_rows(name, table, state, ids, rows, rate, *, step, scale=1.0, decay=0.0, **options):
    """Apply one step of optimizer ``name`` only to rows ``ids`` of ``table`` and ``state``, in place. Local.

    table, every array of ``state``: (R, d).  ids: (k,) int64, unique, 0 <= id < R, in any order; on the host or on the
    table's device.  rows: (k, d).
    The other arguments and errors: see ``update_dense``. Raises IndexError for an id out of range, ValueError for a
    repeated id.
    """
    optimizer, slots = _optimizer(name), _slots(name, table, state)
    _check_alike(table, rows, "rows", (len(ids), *table.shape[1:]))
    _check_ids(ids, len(table))
    options = _options(name, step, options)
    numbers = _numbers(optimizer, table, rate, options, scale, decay)
    if table.ndim == 2 and is_float_numpy(table, *slots, rows):
        optimizer.fast(table, *slots, ids, rows, *numbers)
    elif table.ndim == 2 and is_float_cuda(table, *slots, rows) and all(a.flags.c_contiguous for a in (table, *slots)):
        rows = array_module(rows).ascontiguousarray(rows)
        optimizer.cuda_rows(*rows.shape, rows.shape[1], to_device(ids), table, *slots, rows, *numbers)
    else:
        definition.update_rows(optimizer.define, table, slots, ids, rows, rate, **options, scale=scale, decay=decay)


def _optimizer(name):
    if name not in ELEMENTWISE:
        raise KeyError(f"no elementwise optimizer {name!r}: choose one of {', '.join(ELEMENTWISE)}")
    return ELEMENTWISE[name]


def _slots(name, parameter, state):
    """Return the state arrays in the order of the update's arguments."""
    names = _optimizer(name).state
    if set(names) != set(state):
        raise ValueError(f"{name} keeps the state {sorted(names)}, got {sorted(state)}: make it with initial_state")
    for slot in names:
        _check_alike(parameter, state[slot], slot, parameter.shape)
    return [state[slot] for slot in names]


def _options(name, step, options):
    """Return every option of the optimizer, defaults filled in."""
    known = ELEMENTWISE[name].options
    if not set(options) <= set(known):
        raise TypeError(f"{name} has no option {sorted(set(options) - set(known))}: it takes {sorted(known)}")
    if step < 1:
        raise ValueError(f"step is {step}: the first step is number 1")
    return {**known, **options, **({"step": step} if ELEMENTWISE[name].clock else {})}


def _numbers(optimizer, parameter, rate, options, scale, decay):
    """Return (the scalars of a kernel in the parameter's dtype, the code for weight decay)."""
    decay, decays = _decay(optimizer, rate, decay)
    return [*map(parameter.dtype.type, (*optimizer.scalars(rate, **options), scale, decay)), decays]


def _decay(optimizer, rate, decay):
    """Return (a factor for weight decay, its code ``decays``, see ``fast``)."""
    return (1 - rate * decay, 2) if decay and optimizer.decoupled else (decay, int(decay != 0))


def _check_alike(parameter, array, what, shape):
    if array.shape != shape:
        raise ValueError(f"{what} has shape {array.shape}, the parameter needs {shape}")
    if array.dtype != parameter.dtype:
        raise TypeError(f"{what} is {array.dtype}, the parameter {parameter.dtype}: convert it before the update")


def _check_ids(ids, count):
    """Raise ValueError for repeated ids, whose rows would be updated too often (docs/bugs.md, 12, 13)."""
    xp = array_module(ids)
    if ids.dtype != np.int64:
        raise TypeError(f"ids are {ids.dtype}: row numbers are int64 everywhere")
    if not len(ids):
        return
    if int(ids.min()) < 0 or int(ids.max()) >= count:
        raise IndexError(f"ids reach from {int(ids.min())} to {int(ids.max())}, the table has {count} rows")
    if not bool((ids[1:] > ids[:-1]).all()) and len(xp.unique(ids)) != len(ids):
        raise ValueError("ids repeat: sum the rows that share an id first, with aggregate_rows")
