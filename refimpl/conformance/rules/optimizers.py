"""The optimizers, written down once more, in plain NumPy: what an update must do, element by element.

sgd       p -= rate g
momentum  v = mu v + g;                    p -= rate v
adagrad   a += g g;                        p -= (rate g) / (sqrt(a) + epsilon)      a starts at ``initial``
adam      m = beta1 m + (1 - beta1) g
          v = beta2 v + (1 - beta2) (g g)
          p -= (rate / (1 - beta1^t) m) / (sqrt(v) (1 / sqrt(1 - beta2^t)) + epsilon)      t: updates done, from 1
adam-hat  the same, but
          p -= (rate sqrt(1 - beta2^t) / (1 - beta1^t) m) / (sqrt(v) + epsilon)      Kingma and Ba, end of section 2

Scalars are computed in float64 and rounded once to the parameter's dtype; each operation rounds once. In float32
these are the bits of ``kernels.update``, which a test holds against them.
"""

import math

import numpy as np

from refimpl.conformance.case import Part, Rows

SLOTS = {"sgd": (), "momentum": ("velocity",), "adagrad": ("accumulator",), "adam": ("first", "second"),
         "adam-hat": ("first", "second")}
"""optimizer -> the arrays that it keeps beside a parameter."""


def initial_state(optimizer: str, parameter, options) -> dict[str, np.ndarray]:
    """Return the optimizer's arrays before the first update. Local."""
    value = options["initial"] if optimizer == "adagrad" else 0.0
    return {slot: np.full_like(parameter, value) for slot in SLOTS[optimizer]}


def apply(optimizer: str, p, state, g, rate: float, step: int, options):
    """Do one update in place. p, g, each array of ``state``: one shape, one dtype.  step: from 1. Local."""
    scalar = p.dtype.type
    if optimizer == "sgd":
        p -= scalar(rate) * g
    elif optimizer == "momentum":
        state["velocity"][...] = scalar(options["mu"]) * state["velocity"] + g
        p -= scalar(rate) * state["velocity"]
    elif optimizer == "adagrad":
        state["accumulator"] += g * g
        p -= (scalar(rate) * g) / (np.sqrt(state["accumulator"]) + scalar(options["epsilon"]))
    elif optimizer in ("adam", "adam-hat"):
        _adam(p, state, g, rate, step, options, hat=optimizer == "adam-hat")
    else:
        raise ValueError(f"no optimizer {optimizer!r}; there are {', '.join(SLOTS)}")


def _adam(p, state, g, rate, step, options, hat):
    scalar, m, v = p.dtype.type, state["first"], state["second"]
    beta1, beta2 = options["beta1"], options["beta2"]
    corrected, correction = rate / (1 - beta1**step), 1 / math.sqrt(1 - beta2**step)
    m[...] = scalar(beta1) * m + scalar(1 - beta1) * g
    v[...] = scalar(beta2) * v + scalar(1 - beta2) * (g * g)
    if hat:
        p -= (scalar(corrected / correction) * m) / (np.sqrt(v) + scalar(options["epsilon"]))
    else:
        p -= (scalar(corrected) * m) / (np.sqrt(v) * scalar(correction) + scalar(options["epsilon"]))


def apply_rows(optimizer: str, table, state, ids, rows, rate, step, options):
    """Do one update of rows ``ids`` (each once), and of nothing else. Local."""
    p, slots = table[ids], {slot: array[ids] for slot, array in state.items()}
    apply(optimizer, p, slots, rows, rate, step, options)
    table[ids] = p
    for slot, array in state.items():
        array[ids] = slots[slot]


def apply_part(optimizer: str, p, state, part: Part, everywhere: bool, *settings):
    """Do one update by an array or Rows, each id once. everywhere: all other rows have gradient 0. Local."""
    if isinstance(part, Rows) and everywhere:
        whole = np.zeros_like(p)
        whole[part.ids] = part.rows
        part = whole
    if isinstance(part, Rows):
        apply_rows(optimizer, p, state, part.ids, part.rows, *settings)
    else:
        apply(optimizer, p, state, part, *settings)
