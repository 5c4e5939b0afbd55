"""The pictures of training without barriers say what the clock did: steps, waiting, dropped work, ages of gradients."""

from collections import Counter

import numpy as np
import pytest

from models import Constant, Variable
from refimpl.pictures.without_barriers import Watched, draw_workers, seen
from refimpl.plain.training.hybrid import Options
from refimpl.plain.without_barriers.scripted_clock import run

SLOW = [1.0, 1.0, 1.0, 3.0]


class Spring:
    def needs(self, clock):
        return {}

    def gradients(self, clock, values):
        return {"w": 0.1 / len(SLOW) * values["w"]}


def watch(rule, steps=20):
    variables = [Variable("w", (1,), dtype="float64", initial=Constant(1.0))]
    owner = Watched(0, 1, len(SLOW), steps, variables, Options("sgd", 1.0), rule)
    return owner, run([owner], [Spring()] * len(SLOW), variables, SLOW)


def training(rule):
    owner, happened = watch(rule)
    return seen(happened, owner)


@pytest.mark.parametrize("rule, applied, updates, waits_of_0, waits_of_3", [
    ("synchronous", 16, 4, [(1, 3), (4, 6), (7, 9), (10, 12)], []),
    ("backup:1", 36, 12, [], []),
    ("bounded:2", 22, 22, [(4, 6), (7, 9), (10, 12)], []),
    ("softsync:2", 40, 20, [], []),
    ("asynchronous", 40, 40, [], []),
])
def test_twelve_seconds_with_a_straggler(rule, applied, updates, waits_of_0, waits_of_3):
    found = training(rule)
    assert found.applied(12) == applied and sum(time <= 12 for time in found.updates) == updates
    assert found.waits(0, 12) == waits_of_0 and found.waits(3, 12) == waits_of_3
    assert found.staleness(12).total() == applied


def test_what_is_dropped_is_told():
    steps = training("backup:1").steps
    assert all(step.applied == (step.worker != 3) for step in steps if step.end <= 12)
    picture = draw_workers({"backup:1": training("backup:1")}, until=12)
    assert "backup:1, 36 gradients applied, 4 dropped, workers wait 0% of the time" in picture.alt
    assert picture.numbers.splitlines()[-1].split() == ["backup:1", "3", "4", "0", "0"]
    assert "computed, then dropped" in picture.svg and ">waiting<" not in picture.svg


def test_waiting_and_updates_at_once_are_told():
    picture = draw_workers({"bounded:2": training("bounded:2")}, until=12)
    assert picture.alt.endswith("bounded:2, 22 gradients applied, 0 dropped, workers wait 38% of the time")
    assert picture.numbers.splitlines()[1].split() == ["bounded:2", "0", "6", "6", "6"]
    assert ">waiting<" in picture.svg and "then dropped" not in picture.svg and ">owner<" in picture.svg
    assert picture.svg == draw_workers({"bounded:2": training("bounded:2")}, until=12).svg


def test_without_its_owner_nothing_is_said_of_updates():
    found = seen(watch("backup:1")[1])
    assert found.updates == () and all(step.applied for step in found.steps)
    assert ">owner<" not in draw_workers({"ranks": found}, until=5.5, unit="milliseconds").svg


def test_ages_are_those_of_the_owner():
    owner, happened = watch("asynchronous")
    found = seen(happened, owner)
    assert found.staleness(1e9) == owner.staleness and found.staleness(1) == Counter({0: 1, 1: 1, 2: 1})
    assert max(found.staleness(12).items()) == (9, 4)


def test_the_history_is_that_of_all_updates():
    owner, _ = watch("synchronous")
    assert [values["w"][0] for values in owner.history] == pytest.approx(0.9 ** np.arange(21))
