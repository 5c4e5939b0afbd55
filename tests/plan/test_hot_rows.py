"""Plans with hot rows: worth what the plan of two variables is; how many are chosen follows from popularity."""


import numpy as np
import pytest

from models import Uniform, Variable
from refimpl.collectives.simulation.network import Network
from refimpl.plan import Plan, make_plan, predict_step
from refimpl.plan.partitions.balance import owner_loads
from refimpl.plan.cost import together
from refimpl.plan.partitions.parts import rows_of
from refimpl.plan.predict import Predictor
from refimpl.plan.sample import Sample
from refimpl.strategies import HotRows, RowsAsDense, ServedRows
from refimpl.strategies.choose_hot import choose_hot_rows, describe_hot
from refimpl.strategies.hot_rows import with_hot_rows

RANKS, ROWS = 8, 2000
MACHINES = tuple((r,) for r in range(RANKS))
SLOW = Network(MACHINES, latency=50e-6, bandwidth_out=25e6, bandwidth_in=25e6, overhead=1e-5)
WORDS, BIAS = Variable("words", (ROWS, 32), sparse=True), Variable("bias", (ROWS, 1), sparse=True)


def sample_of(chance, variables=(WORDS, BIAS), steps=3):
    """Return rows drawn for each microbatch, row i with probability chance[i]; the same for all variables."""
    rng = np.random.default_rng(7)
    drawn = [[np.flatnonzero(rng.random(ROWS) < chance) for _ in range(RANKS)] for _ in range(steps)]
    touched = tuple({v.name: leaves for v in variables} for leaves in drawn)
    return Sample(RANKS, {v.name: ROWS for v in variables}, tuple(range(steps)), touched)


ZIPF = 1 - np.exp(-150 / np.arange(1, ROWS + 1))  # 150 draws of the most frequent word are expected
RARE = np.full(ROWS, 0.02)


def test_two_parts_have_the_rows_of_the_whole():
    v = Variable("v", (11, 3), sparse=True, initial=Uniform(1.0), decays=False)
    whole, parts = v.initial_value(5), [rows_of(v, 0, 4), rows_of(v, 4, 11), rows_of(v, 11, 11)]
    assert [p.shape for p in parts] == [(4, 3), (7, 3), (0, 3)] and all(not p.decays and p.name == "v" for p in parts)
    assert np.array_equal(np.concatenate([p.initial_value(5) for p in parts]), whole)
    assert np.array_equal(parts[1].initial_rows(5, 1, 6, 2), whole[5:10:2])


def test_row_numbers_are_split_and_counted_anew():
    v, ids = Variable("v", (2**33, 1), sparse=True), np.array([0, 3, 4, 2**31 + 5])
    for hot, first, rest in ((0, [], ids), (4, [0, 3], [0, 2**31 + 1]), (2**32, ids, [])):
        found = [rows_of(v, 0, hot).cut(ids), rows_of(v, hot, 2**33).cut(ids)]
        assert [part.tolist() for part in found] == [list(first), list(rest)]
        assert found[1].dtype == np.int64


def test_a_plan_with_hot_rows_is_a_plan_of_two_variables():
    plan = with_hot_rows(make_plan([WORDS, BIAS], "hybrid", 4, 8), {"words": 50})
    assert [type(s) for s in plan.strategies.values()] == [HotRows, ServedRows]
    parts = together(plan, [WORDS, BIAS])
    assert [(kind, [(v.name, v.shape[0]) for v, _ in placed]) for kind, placed in parts] == [
        (ServedRows, [("words", ROWS - 50), ("bias", ROWS)]), (RowsAsDense, [("words", 50)])]
    assert plan.partitioning(WORDS).rows == ROWS - 50
    assert Plan.from_json(plan.to_json()) == plan
    assert with_hot_rows(plan, {}) == make_plan([WORDS, BIAS], "hybrid", 4, 8)


def test_bytes_by_hand():
    """Two ranks, one row a partition: row 0 is hot and goes by allreduce of 1 value and 1 mark, row 2 to rank 1."""
    v = Variable("v", (3, 1), sparse=True)
    plan = with_hot_rows(make_plan([v], "hybrid", 2, 2, allreduce="direct", partitions=2), {"v": 1})
    ids = np.array([0, 2])
    found = predict_step(plan, [v], {"v": [ids, ids]}, {"v": [[ids], [ids]]}, 0)
    assert {key: n for key, n in found.items() if key[2] != "control"} == {
        ("pull", "v", "indices"): (8, 0), ("pull", "v", "rows"): (0, 4), ("push", "v", "indices"): (8, 0),
        ("push", "v", "rows"): (4, 0), ("allreduce", "v", "dense"): (8, 8)}


def test_popular_rows_of_a_narrow_variable_are_replicated():
    """A row of one number costs the server two row numbers and two numbers a rank; a replica a number and a mark."""
    plan = make_plan([WORDS, BIAS], "hybrid", RANKS, RANKS, machines=MACHINES, allreduce="halving-doubling")
    sample = sample_of(ZIPF)
    chosen, forecasts = choose_hot_rows(plan, [WORDS, BIAS], sample, SLOW)
    found = {f.variable: f for f in forecasts}
    assert 50 < found["bias"].hot < ROWS and found["bias"].seconds < found["bias"].without
    assert {name: getattr(s, "hot", 0) for name, s in chosen.strategies.items()} == {
        name: f.hot for name, f in found.items()}
    best, without = (Predictor([WORDS, BIAS], sample, SLOW).seconds(p) for p in (chosen, plan))
    assert all({0, 1, 2, 4, 1024, ROWS} <= {hot for hot, _, _ in f.curve} for f in forecasts)
    assert best <= min(time for f in forecasts for _, _, time in f.curve) * (1 + 1e-9)
    assert best == found["bias"].seconds < without
    assert f"the first {found['bias'].hot} of {ROWS} rows" in describe_hot(forecasts)


def test_rows_that_few_ranks_touch_stay_on_the_server():
    plan = make_plan([WORDS, BIAS], "hybrid", RANKS, RANKS, machines=MACHINES, allreduce="halving-doubling")
    chosen, forecasts = choose_hot_rows(plan, [WORDS, BIAS], sample_of(RARE), SLOW)
    assert chosen == plan and all(f.hot == 0 and f.coverage == 0 for f in forecasts)
    assert "none: no number of them is predicted to save time" in describe_hot(forecasts)


@pytest.mark.parametrize("strategy, words", [
    (HotRows((0,), hot=0), "0 hot rows; give a whole number from 1 to 2000"),
    (HotRows((0,), hot=ROWS + 1), "2001 hot rows; give a whole number from 1 to 2000"),
    (HotRows((0,), hot=5, replica="server"), "hot rows cannot go 'server'; give as-dense or allgather"),
    (HotRows((), hot=5), "at least one owner"),
])
def test_what_cannot_be_followed_is_refused(strategy, words):
    with pytest.raises(ValueError, match=words):
        strategy.check(BIAS, 2)


def test_owners_loads_leave_hot_rows_out():
    plan = make_plan([BIAS], "hybrid", 2, 2)
    hot = with_hot_rows(plan, {"bias": 500})
    assert owner_loads([BIAS], hot).tolist() == [750 * 4] * 2
    popularity = {"bias": np.r_[np.full(500, 100), np.ones(1500)]}
    assert owner_loads([BIAS], hot, popularity).tolist() == [750 * 4] * 2
