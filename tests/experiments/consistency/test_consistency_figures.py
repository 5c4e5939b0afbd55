"""Numbers of a training without barriers: throughput while all work, staleness by the record, loss by passes."""

from collections import Counter

import pytest

from refimpl.experiments.consistency.figures import loss_curve, mean_and_most, reached, speed, used, versions_late


def steps_of(paces, planned, examples=10, loss=1.0):
    """Return the steps of workers that take so many seconds for each."""
    steps = [[worker, step, step * pace, loss, examples] for worker, pace in enumerate(paces)
             for step in range(1, planned + 1)]
    return sorted(steps, key=lambda step: (step[2], step[0]))


def test_throughput_is_that_of_all_workers_while_all_work():
    quick, slow = 10 / 1.0, 10 / 3.0
    steps = steps_of([1.0, 1.0, 1.0, 3.0], 12)
    assert speed(steps, "asynchronous", 12) == pytest.approx(3 * quick + slow)
    assert speed(steps, "asynchronous", 12, warm=2) == pytest.approx(3 * quick + slow)
    whole = 10 * len(steps) / steps[-1][2]  # the straggler alone works for two thirds of the time
    assert whole < 0.5 * speed(steps, "asynchronous", 12)


def test_a_synchronous_step_is_paced_by_the_slowest():
    assert speed(steps_of([3.0] * 4, 5), "synchronous", 5) == pytest.approx(4 * 10 / 3)


def test_of_workers_with_hardly_a_step_the_whole_counts():
    assert speed(steps_of([1.0, 3.0], 2), "asynchronous", 2) == pytest.approx(10 / 1 + 10 / 3)


def test_gradients_that_owners_dropped_do_not_count():
    assert used("backup:1", 4, 10, 35) == pytest.approx(30 / 35) and used("backup:0", 4, 10, 40) == 1.0
    assert used("asynchronous", 4, 10, 40) == used("bounded:2", 4, 10, 40) == 1.0


def test_staleness_is_read_from_the_record_alone():
    one = [0, 1]  # both pull; from then on each pushes and pulls in turn: between them the other pushed once
    for _ in range(3):
        one += [0, 0, 1, 1]
    assert versions_late([one, one], "asynchronous", 10) == Counter({0: 2, 1: 10})
    assert versions_late([one, one], "asynchronous", 2) == Counter({0: 2, 1: 4})  # until one has done its steps
    alone = [0, 0, 0, 0, 1, 1]
    assert versions_late([alone, alone], "asynchronous", 10) == Counter({0: 6})


def test_softsync_counts_updates_and_not_pushes():
    one = [0, 1, 2, 3, 0, 0, 1, 1, 2, 2, 3, 3, 0, 1]  # 2 of 4 pushes are an update
    assert versions_late([one] * 4, "softsync:2", 10) == Counter({0: 4 * 2, 1: 4 * 3, 2: 4})


def test_mean_and_what_95_of_100_do_not_exceed():
    assert mean_and_most(Counter({0: 95, 10: 5})) == (0.5, 0)
    assert mean_and_most(Counter({0: 94, 10: 6})) == (0.6, 10)
    assert mean_and_most(Counter()) == (0.0, 0)


def test_a_pass_is_as_many_steps_as_there_are_workers():
    steps = [[0, 1, 0.5, 4.0, 1], [1, 1, 1.0, 2.0, 1], [0, 2, 1.5, 2.0, 1], [1, 2, 3.0, 1.0, 1], [0, 3, 4.0, 9.0, 1]]
    assert loss_curve(steps, 2) == [[1.0, 1.0, 3.0], [2.0, 3.0, 1.5]]
    assert loss_curve(steps, 2, 2) == [[2.0, 3.0, 2.25]]


def test_when_a_curve_reaches_a_loss():
    curve = [[1.0, 0.5, 3.0], [2.0, 1.5, 2.0]]
    assert reached(curve, 2.5) == "1.50" and reached(curve, 1.0) == reached(curve, None) == "-"
