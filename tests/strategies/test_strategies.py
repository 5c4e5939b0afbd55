"""What strategies say of their bytes, parts and predictions, in exact numbers."""

import numpy as np

from models import Variable
from refimpl.plan import make_plan
from refimpl.plan.mesh import with_mesh
from refimpl.strategies import Columns, ServedRows
from refimpl.strategies.choose_hot import HotForecast, describe_hot
from refimpl.strategies.columns import part_of

LAYER = [Variable("fc.weight", (8, 3), blocks=4), Variable("fc.bias", (8,), blocks=4)]


def test_lists_of_two_served_tables_are_counted_together():
    """Rank 0 owns rows 0 to 2 of both tables of 4 byte rows, rank 1 the others. Lengths are told for each table."""
    tables = [Variable(name, (6, 1), sparse=True) for name in ("a", "b")]
    plan = make_plan(tables, "ps", 2, 2)
    pulled, pushed = [np.array([0, 4, 5]), np.array([1])], [[np.array([5])], [np.array([1, 4])]]
    found = ServedRows.bytes_between([(v, plan.strategies[v.name]) for v in tables], plan, lambda v: (pulled, pushed))
    each = {("pull", "indices"): [16, 8], ("pull", "rows"): [4, 8],
            ("push", "indices"): [8, 8], ("push", "rows"): [4, 4]}
    expected = {(phase, name, kind): sent for (phase, kind), sent in each.items() for name in "ab"}
    expected |= {(phase, "", "control"): [2 * 8, 2 * 8] for phase in ("pull", "push")}
    assert {key: [matrix[0, 1], matrix[1, 0]] for key, matrix in found.items() if matrix.any()} == expected


def test_members_of_a_group_hold_the_rows_of_a_cut_layer_in_their_order():
    mesh = with_mesh(make_plan(LAYER, "allreduce", 4, 4), LAYER, "2x2").on_mesh
    for v in LAYER:
        parts = [part_of(v, mesh, rank) for rank in range(4)]
        assert [(part.first, part.shape) for part in parts] == [(4 * k, (4, *v.shape[1:])) for k in (0, 1, 0, 1)]


def test_holders_of_a_part_sum_it_alone():
    """16 elements a part: ranks 0 and 2 send each other all of theirs in two halves, so do 1 and 3."""
    plan = with_mesh(make_plan(LAYER, "allreduce", 4, 4), LAYER, "2x2")
    found = Columns.bytes_between([(v, plan.strategies[v.name]) for v in LAYER], plan, None)
    pairs = np.zeros((4, 4), np.int64)
    pairs[[0, 2, 1, 3], [2, 0, 3, 1]] = 4
    assert {name: matrix.tolist() for (_, name, _), matrix in found.items()} == {
        "fc.weight": (12 * pairs).tolist(), "fc.bias": (4 * pairs).tolist()}


def test_a_forecast_of_hot_rows_tells_rows_pulls_and_milliseconds():
    paying = HotForecast("words", 2000, 32, "as-dense", 0.0125, 0.05, 0.75, ())
    none = HotForecast("bias", 2000, 0, "as-dense", 0.05, 0.05, 0.0, ())
    assert describe_hot([paying, none]).splitlines() == [
        "hot rows of words: the first 32 of 2000 rows, 75% of the pulls, go as-dense: predicted 50 -> 12.5 ms a step",
        "hot rows of bias: none: no number of them is predicted to save time (50 ms a step)"]
