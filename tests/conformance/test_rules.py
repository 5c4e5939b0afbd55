"""What the suite expects, held against our kernels and our tree: written twice, the same to the bit."""

import math
from dataclasses import replace

import numpy as np
import pytest

from kernels import aggregate_rows, merge_rows
from kernels.update import definition, initial_state as our_state
from refimpl.conformance.bounds import bound, exact_sum, gamma, ulps
from refimpl.conformance.case import Case, CaseVariable, Rows
from refimpl.conformance.cases import case_named, numbers
from refimpl.conformance.cases.training import OPTIONS, start_of
from refimpl.conformance.kinds import KINDS
from refimpl.conformance.semantics import Semantics
from refimpl.conformance.space.aggregation import Aggregation
from refimpl.conformance.space.training import TrainingAnswers
from refimpl.gradients import Node, fold
from refimpl.plain.updating.optimizers import OPTIMIZERS
from refimpl.plain.updating.optimizers_elsewhere import EVERY


def aggregate(parts, semantics, dtype, exact):
    variable = CaseVariable("", (5, 2) if isinstance(parts[0], Rows) else parts[0].shape, isinstance(parts[0], Rows), dtype)
    case = Case("", "", "", len(parts), (variable,), (tuple({"": part} for part in parts),), exact)
    return Aggregation(case, semantics).expected()[0][""]


OF_ALL = OPTIONS | {"nesterov": OPTIONS["momentum"], "adamw": OPTIONS["adam"]}


@pytest.mark.parametrize("decay", [0.0, 0.25])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("optimizer", sorted(OPTIMIZERS))
def test_optimizers_are_ours_to_the_bit(optimizer, dtype, decay):
    rng = np.random.default_rng(1)
    ours = rng.standard_normal((7, 5)).astype(dtype)
    theirs, plain = ours.copy(), OPTIMIZERS[optimizer](**OF_ALL[optimizer], decay=decay)
    state, slots = plain.state(theirs), our_state(optimizer, ours)
    options_of_ours = {n: v for n, v in OF_ALL[optimizer].items() if n != "initial"}

    for step in range(1, 6):
        g = rng.standard_normal((7, 5)).astype(dtype)
        more = {**options_of_ours, "decay": decay, **({"step": step} if optimizer in ("adam", "adamw") else {})}
        getattr(definition, optimizer)(ours, *slots.values(), g, 0.1, **more)
        plain.apply(theirs, state, ..., g, 0.1, step)
        ids = np.array([5, 0, 3])
        definition.update_rows(getattr(definition, optimizer), ours, list(slots.values()), ids, g[:3], 0.1, **more)
        plain.apply(theirs, state, ids, g[:3], 0.1, step)
    assert ours.tobytes() == theirs.tobytes()
    assert [a.tobytes() for a in slots.values()] == [a.tobytes() for a in state.values()]


@pytest.mark.parametrize("ranks", [1, 2, 3, 5, 8])
def test_the_tree_is_ours_to_the_bit(ranks):
    semantics = Semantics(dense="sum", sparse="sum", order="tree")
    arrays = numbers.cancelling("tree", ranks, (33,))
    ours = fold([(Node(0, r), a.copy()) for r, a in enumerate(arrays)], np.add)
    assert aggregate(arrays, semantics, "float32", False).canonical.tobytes() == ours.tobytes()
    parts = [Rows(np.array([r % 3, 1, r % 3]), a[:6].reshape(3, 2)) for r, a in enumerate(arrays)]
    ours = fold([(Node(0, r), aggregate_rows(p.ids, p.rows)) for r, p in enumerate(parts)], merge_rows)
    found = aggregate(parts, semantics, "float32", False).canonical
    assert np.array_equal(found.ids, ours.ids) and found.rows.tobytes() == ours.rows.tobytes()


def test_an_exact_sum_is_rounded_once():
    addends = np.array([[1e16, np.inf], [1.0, 1.0], [-1e16, -np.inf]])
    assert exact_sum(addends)[0] == 1.0 and math.isnan(exact_sum(addends)[1])


def test_the_bound_holds_and_is_not_idle():
    addends = np.stack(numbers.cancelling("bound", 8, (500,)))
    found = addends[0]
    for row in addends[1:]:
        found = found + row
    error = np.abs(found - exact_sum(addends))
    allowed = bound(7, np.abs(addends).sum(axis=0, dtype=np.float64), "float32")
    assert (error <= allowed).all() and error.max() > allowed.max() / 100
    assert gamma(7, "float32") == pytest.approx(7 * 2**-24, rel=1e-5)


def test_ulps():
    one = np.float32(1)
    assert ulps([np.nextafter(one, np.float32(2))], [1.0], "float32")[0] == 1
    assert ulps([np.nan, np.inf, 0.0, 1.0], [np.nan, np.inf, -0.0, np.inf], "float32").tolist() == [0, 0, 0, math.inf]


@pytest.mark.parametrize(("rule", "first"),
                         [("sum", 6.0), ("average", 2.0), ("per-row-count", 3.0), ("per-occurrence", 2.0)])
def test_what_rows_are_divided_by(rule, first):
    """Row 0: 1 + 2 on rank 0, 3 on rank 1, nothing on rank 2."""
    ones = np.ones((1, 2), np.float32)
    parts = [Rows(np.array([0, 0]), np.concatenate([ones, 2 * ones])), Rows(np.array([0]), 3 * ones),
             Rows(np.array([4]), ones)]
    wanted = aggregate(parts, Semantics(sparse=rule), "float32", True)
    assert wanted.value.ids.tolist() == [0, 4] and wanted.value.rows[0, 0] == first
    last = aggregate(parts, Semantics(sparse="sum", duplicates="last"), "float32", True)
    assert last.value.rows[0, 0] == 5


def test_tolerances():
    """Zero for exact inputs and a power of two, the bound otherwise."""
    arrays = [np.ones(3, np.float32)] * 4
    assert not aggregate(arrays, Semantics(), "float32", True).tolerance.any()
    assert aggregate(arrays[:3], Semantics(), "float32", True).tolerance.all()
    assert aggregate(arrays, Semantics(), "float32", False).tolerance.all()


def test_adam_as_tensorflow_writes_it_is_adam_with_another_epsilon():
    """Epsilon before the correction is epsilon after it, multiplied by the correction: the one way to have it."""
    rng, given = np.random.default_rng(3), {"beta1": 0.75, "beta2": 0.96875, "epsilon": 0.25}
    hat = rng.standard_normal(7)
    corrected = hat.copy()
    states = [OPTIMIZERS["adam"]().state(hat) for _ in range(2)]
    for step in range(1, 5):
        g, epsilon = rng.standard_normal(7), given["epsilon"] / math.sqrt(1 - given["beta2"]**step)
        EVERY["adam-hat"](**given).apply(hat, states[0], ..., g, 0.5, step)
        OPTIMIZERS["adam"](**{**given, "epsilon": epsilon}).apply(corrected, states[1], ..., g, 0.5, step)
        assert np.allclose(hat, corrected, rtol=1e-14)


def test_windows():
    case = case_named("accumulate/adam", 2)
    assert [len(w) for w in TrainingAnswers(case, Semantics()).windows] == [2, 2, 1]
    assert [len(w) for w in TrainingAnswers(case, Semantics(partial="dropped")).windows] == [2, 2]


def test_clipping_reaches_the_norm():
    """With sgd at a rate and a clipped gradient, the first update has the norm rate * clip."""
    case = case_named("clip/norm", 3)
    task = case.settings["task"]
    start = start_of(case, 0)
    for rule, names in (("all", start), ("dense", ["weight"])):
        wanted = KINDS[case.kind].expect(case, replace(Semantics(), clip_norm=rule))[0]
        moved = math.sqrt(sum(((wanted[n].value - start[n]) ** 2).sum() for n in names))
        assert moved == pytest.approx(task["rate"] * task["clip"], rel=1e-6)
