"""Pictures of a model and of words between three corners say what they show."""

import numpy as np

from models import Batch, Variable
from refimpl.pictures.models import DOT, _dots, draw_touched, draw_triangle


class Table:
    variables = [Variable("table", (1000, 4), sparse=True), Variable("weight", (4, 2)), Variable("bias", (2,))]

    def rows_needed(self, batch):
        return {"table": np.unique(batch.inputs)}


def test_touched_rows_are_counted_variable_by_variable():
    drawn = draw_touched(Table(), Batch(np.array([3, 999, 3]), None))
    assert drawn.alt.endswith("table, 2 of 1,000 rows; weight, 4 of 4 rows; bias, 2 of 2 rows")
    assert drawn.svg == draw_touched(Table(), Batch(np.array([3, 999, 3]), None)).svg


def test_the_nearest_points_are_named_at_their_corner():
    shares = np.array([(0.8, 0.1, 0.1), (0.1, 0.9, 0.0), (0.2, 0.2, 0.6), (0.5, 0.3, 0.2)])
    drawn = draw_triangle(shares, ["a", "b", "c", "d"], ("left", "right", "top"), named=1)
    assert drawn.alt.endswith("left: a; right: b; top: c") and ">d<" not in drawn.svg
    assert draw_triangle(shares[:1], ["a"], ("left", "right", "top")).alt.endswith("left: a; right: ; top: ")


def test_thousands_of_points_are_dots_of_one_line():
    points = np.random.default_rng(0).random((3000, 2))
    x, y = (values.reshape(-1, 3) for values in _dots(points))
    for place in points[:200]:
        drawn = (x[:, 0] <= place[0] + DOT) & (place[0] - DOT <= x[:, 1]) & (abs(y[:, 0] - place[1]) <= DOT)
        assert drawn.any()
    assert np.isnan(x[:, 2]).all() and (x[:, 1] > x[:, 0]).all()
    shares = np.random.default_rng(0).dirichlet((2, 2, 2), 3000)
    assert len(draw_triangle(shares, [str(i) for i in range(3000)], ("a", "b", "c")).svg) < 150_000
