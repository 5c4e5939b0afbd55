"""Rows that come in rounds: each is asked for once, and every microbatch finds its own; mappings that wait; sums that begin."""

from types import SimpleNamespace
from unittest.mock import Mock

import numpy as np
import pytest

from refimpl.gradients import Node
from refimpl.training.run.timeline import Timeline
from refimpl.training.step.arriving import Arriving, Fetched, Wanted, wanted_rows
from refimpl.training.step.early import EarlyStep
from refimpl.training.step.sequential import LeavingStep, SequentialStep


def some_needs(rng, count, rows):
    sizes = rng.integers(0, rows, count)
    return [np.sort(rng.choice(rows, size, replace=False)).astype(np.int64) for size in sizes]


@pytest.mark.parametrize("count", [0, 1, 2, 3, 7])
@pytest.mark.parametrize("rounds", [1, 2, 3, 9])
def test_each_row_is_asked_for_once_in_the_first_round_that_needs_it(count, rounds):
    rng = np.random.default_rng([count, rounds])
    for _ in range(20):
        needs = some_needs(rng, count, 30)
        wanted, table = Wanted(needs, rounds), rng.standard_normal((30, 2)).astype(np.float32)
        everything = np.unique(np.concatenate([np.empty(0, np.int64), *needs]))
        assert len(wanted.fresh) == rounds and all(ids.dtype == np.int64 for ids in wanted.fresh)
        assert np.array_equal(np.sort(np.concatenate(wanted.fresh)), everything)
        fetched, here = Fetched(wanted), set()
        for number, ids in enumerate(wanted.fresh):
            assert (ids[1:] > ids[:-1]).all()
            of_round = needs[number:number + 1] if number < rounds - 1 else needs[number:]
            assert set(ids) == {i for of_microbatch in of_round for i in of_microbatch} - here
            here |= set(ids)
            fetched.put(number, table[ids])
            for index, of_microbatch in enumerate(needs):
                if wanted.round_of[index] <= number:
                    assert np.array_equal(fetched.take(index), table[of_microbatch])


def test_one_round_of_one_microbatch_copies_nothing():
    ids, rows = np.array([3, 5]), np.ones((2, 4))
    fetched = Fetched(Wanted([ids]))
    fetched.put(0, rows)
    assert fetched.wanted.fresh[0] is ids and fetched.take(0) is rows


def test_variables_of_the_same_needs_share_them():
    same, other = np.array([1, 2]), np.array([1, 2])
    wanted = wanted_rows([{"weight": same, "bias": same, "words": other}], ["weight", "bias", "words"], 1)
    assert wanted["weight"] is wanted["bias"] and wanted["words"] is not wanted["bias"]


def test_a_mapping_asks_once_and_only_for_what_is_looked_up():
    asked = []
    mapping = Arriving(["a", "b"], lambda name: asked.append(name) or name.upper())
    assert "a" in mapping and "c" not in mapping and set(mapping) == {"a", "b"} and len(mapping) == 2 and asked == []
    assert mapping["b"] == "B" and mapping.get("b") == "B" and asked == ["b"]
    assert mapping.get("c") is None and dict(mapping) == {"a": "A", "b": "B"}
    with pytest.raises(KeyError):
        mapping["c"]


@pytest.mark.parametrize("end", [lambda step: step.put(1, Node(0, 1), {}), lambda step: step.put(1, None, None),
                                 lambda step: step.add(1, None), lambda step: step.add(1, {"weight": 1.0})])
def test_a_sum_begins_with_the_last_microbatch_however_it_ends(end):
    """Its own gradient, none, or what was formed before a death; else the others would wait for ever."""
    left, exchange = [], Mock(variables=[SimpleNamespace(name="weight")])
    step = LeavingStep(SimpleNamespace(exchanges=[exchange], exchange_of={"weight": exchange}, variables=[]),
                       {0: {}, 1: {}}, {}, None)
    step._leave = left.append
    step.put(0, Node(0, 0), {})
    assert left == []
    end(step)
    assert left == [exchange]


def test_a_computation_that_failed_leaves_no_microbatch_out():
    """The exchange gets nothing for those that are missing, in order; if it failed itself, the error ends the rank."""
    added, error = [], ValueError("the cat")
    exchange = Mock(add=lambda leaf, gradients: added.append((leaf, gradients)))
    step = SequentialStep(SimpleNamespace(exchanges=[exchange], variables=[], exchange_of={}, comm=Mock()),
                          dict.fromkeys(range(2, 8), {}), {}, None)
    step.put(2, Node(1, 1), {})
    step.add(4, "some")
    step.complete(None)
    assert added == [(4, "some")]
    step.complete(error)
    assert added == [(4, "some"), (5, None), (6, None), (7, None)]
    step.complete(error)
    assert len(added) == 4
    exchange.add = Mock(side_effect=error)
    for fails in (lambda: step.add(8, "more"), lambda: step.complete(error)):
        with pytest.raises(ValueError, match="the cat"):
            fails()


def test_early_sums_make_progress_while_another_is_awaited():
    """Not the one that waits: it has tested its own messages."""
    advanced, moved = [], {"a": False, "b": True, "c": False}
    comm = SimpleNamespace(waiter=SimpleNamespace(beside=lambda: advanced.append("channel")))

    def exchange(name):
        def push():
            assert comm.waiter.beside() is any(moved[other] for other in moved if other != name)
            return [name]
        return Mock(push=push, advance=lambda: advanced.append(name) or moved[name], phase="push")

    exchanges = [exchange(name) for name in moved]
    step = EarlyStep(SimpleNamespace(exchanges=exchanges, variables=[], exchange_of={}, comm=comm), {}, {}, Timeline())
    step.complete(None)
    assert advanced == ["a", "b", "c"]
    assert list(step.sums()) == [["a"], ["b"], ["c"]]  # each as soon as it is complete
    assert advanced[3:] == ["b", "c", "channel", "a", "c", "channel", "a", "b", "channel"]
    assert comm.waiter.beside() is None
