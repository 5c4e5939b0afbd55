"""How initial values are looked at: at pieces of a bounded size, at both ends of a variable and between."""

from types import SimpleNamespace

import numpy as np
import pytest

from models import Uniform, Variable
from refimpl.training.agreement import ELEMENTS, PIECES, initial_facts

SHAPES = [(), (1,), (7,), (3, 5), (40_000,), (1000, 300), (1, 4_000_000), (2, 2_000_000), (5, 3000), (1, 4097),
          (10**9, 64), (3, 0)]


class Recorded:
    """Uniform values; ``asked`` keeps what was asked for. ``spoil(values, start)`` may spoil them."""

    def __init__(self, spoil=lambda values, start: None):
        self.asked, self.spoil = [], spoil

    def elements(self, key, start, count):
        self.asked.append((start, start + count))
        values = Uniform(0.5).elements(key, start, count)
        self.spoil(values, start)
        return values


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_both_ends_and_between_and_no_more_than_the_pieces(shape):
    initial = Recorded()
    variable = Variable("a", shape, initial=initial)
    facts = initial_facts([variable], 3)
    if not variable.size:
        assert facts == {} and initial.asked == []
        return
    assert min(initial.asked)[0] == 0 and max(stop for _, stop in initial.asked) == variable.size
    assert max(stop - start for start, stop in initial.asked) <= ELEMENTS and len(initial.asked) <= 3 * PIECES
    places = sorted(set(initial.asked))
    if variable.size > 2 * PIECES * ELEMENTS:
        assert max(b[0] - a[0] for a, b in zip(places, places[1:])) <= variable.size // (PIECES - 1) + 1
    width = variable.size // shape[0] if shape else 1
    if 2 * width <= ELEMENTS:
        assert all(place % width == 0 for asked in places for place in asked)
    assert facts == initial_facts([Variable("a", shape, initial=Uniform(0.5))], 3)


@pytest.mark.parametrize("shape", [(7,), (1000, 300), (1, 4_000_000)], ids=str)
def test_a_spoilt_end_is_seen(shape):
    last = Variable("a", shape).size - 1

    def not_finite(values, start):
        if start + len(values) > last:
            values[last - start] = np.inf

    def from_where_it_is_asked(values, start):
        values[0] = start

    with pytest.raises(ValueError, match="'a' are not finite"):
        initial_facts([Variable("a", shape, initial=Recorded(not_finite))], 0)
    with pytest.raises(ValueError, match="or in parts"):
        initial_facts([Variable("a", shape, initial=Recorded(from_where_it_is_asked))], 0)


@pytest.mark.parametrize("make, words", [
    (lambda key, start, count: np.random.random(count), "differ when they are asked for again"),
    (lambda key, start, count: np.random.default_rng(5).random(count), "or in parts"),
    (lambda key, start, count: np.ones(3), r"cannot be made \(ValueError: cannot reshape"),
    (lambda key, start, count: np.full(count, np.nan), "are not finite"),
    (lambda key, start, count: ["a"] * count, "cannot be made"),
], ids=["a global state", "from anywhere", "three", "NaN", "words"])
def test_values_that_depend_on_more_or_are_no_numbers(make, words):
    with pytest.raises(ValueError, match=f"^the initial values of 'table' .*{words}"):
        initial_facts([Variable("table", (50, 3), initial=SimpleNamespace(elements=make))], 0)


def test_a_list_will_do():
    class Listed:
        def elements(self, key, start, count):
            return Uniform(0.5).elements(key, start, count).tolist()

    listed, plain = (Variable("a", (30, 5), initial=initial) for initial in (Listed(), Uniform(0.5)))
    assert np.array_equal(listed.initial_value(3), plain.initial_value(3))
    assert initial_facts([listed], 3) == initial_facts([plain], 3) != initial_facts([Variable("a", (30, 5))], 3)
