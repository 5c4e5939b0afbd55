"""Consistencies and corrections on a quadratic, by scripted clocks: their closed forms, and each checker's failure."""

import math

import numpy as np
import pytest
from springs import Rows, Spring, Watched, options, random_clock, springs

from kernels.update import OPTIMIZERS, initial_state
from models import Constant, Variable
from refimpl.plain.without_barriers.consistencies import Bounded, consistency
from refimpl.plain.without_barriers.corrections import Adaptive, DelayCompensated
from refimpl.plain.without_barriers.owner import Owner
from refimpl.plain.without_barriers.scripted_clock import run


# ---- asynchronous: constant delay ------------------------------------------------------------------------------------

def bound(delay):
    """The largest stable η h."""
    return 2 * math.cos(math.pi * delay / (2 * delay + 1))


def delayed(delay, factors, correction="none", updates=6000):
    """All versions of w with η h = factors: delay + 1 workers of one speed, so that each gradient is so many updates old."""
    workers = delay + 1
    owner, _ = springs("asynchronous", [factors] * workers, updates // workers, [1.0] * workers, correction=correction)
    assert owner.staleness[delay] >= (updates // workers - 1) * workers  # from the second gradient of each worker on
    return np.array(owner.history)


def settles(history):
    """Whether each element goes to 0, rather than away from it."""
    early, late = (abs(history[i:i + 100]).max(axis=0) for i in (len(history) // 6, len(history) - 100))
    assert ((late < 0.8 * early) | (late > 1.25 * early)).all()
    return (late < early).tolist()


@pytest.mark.parametrize("delay", [0, 1, 2, 4])
def test_stability_flips_at_the_bound(delay):
    factors = np.array([0.999, 1.001]) * bound(delay)
    history = delayed(delay, factors)
    assert settles(history) == [True, False]
    w = [np.ones(2)] * (delay + 1)
    for _ in range(len(history) - 1):  # w(t + 1) = w(t) - η g(w(t - τ)), to the bit
        w.append(w[-1] - (delay + 1) * (factors / (delay + 1) * w[-1 - delay]))
    assert np.array(w[delay:]).tobytes() == history.tobytes()
    assert settles(delayed(delay + 1, factors, updates=300)) == [False, False]  # one update older is too old


def test_staleness_aware_settles_where_plain_does_not():
    factors = np.array([0.6, 1.3])  # a quarter of them: 0.15 and 0.325, below 0.347
    assert settles(delayed(4, factors, updates=600)) == [False, False]
    assert settles(delayed(4, factors, "staleness-aware", 600)) == [True, True]


# ---- bounded ---------------------------------------------------------------------------------------------------------

def lags(happened, workers):
    """By how many steps the workers that went on were ahead of the slowest."""
    done, found = [0] * workers, set()
    for _, what, worker, clock in happened:
        if what == "push":
            done[worker] += 1
        else:
            assert clock == done[worker]
            found.add(clock - min(done))
    return found


def lags_of_many(rule, number, gate=None):
    """All lags of many trainings by random clocks."""
    found = set()
    for seed in range(40):
        workers = 2 + seed % 4
        owner = Owner(0, 1, workers, 8, VARIABLE, options(), rule)
        if gate:
            owner.consistency = gate(workers, 8, number)
        found |= lags(run([owner], [Spring(0.01, workers)] * workers, VARIABLE, random_clock(seed, workers, 4.0)), workers)
    return found


VARIABLE = [Variable("w", (1,), dtype="float64", initial=Constant(1.0))]


@pytest.mark.parametrize("rule", ["bounded", "snapshot"])
@pytest.mark.parametrize("number", [0, 1, 2, 3])
def test_lag_reaches_s_and_never_more(rule, number):
    assert lags_of_many(f"{rule}:{number}", number) == set(range(number + 1))


def test_the_lag_tells_a_clock_that_is_off_by_one():
    class OneMore(Bounded):
        def answers(self, owner, worker):
            return owner.clocks[worker] - min(owner.clocks) <= self.number + 1

    class OneLess(Bounded):
        def answers(self, owner, worker):
            return owner.clocks[worker] - min(owner.clocks) < self.number

    assert lags_of_many("bounded:2", 2, OneMore) == {0, 1, 2, 3}
    assert lags_of_many("bounded:2", 2, OneLess) == {0, 1}
    with pytest.raises(ValueError, match=r"workers \[0, 1\] wait for ever"):
        lags_of_many("bounded:0", 0, OneLess)


def synchronous_steps(curvatures, optimizer, rate, steps, scale=1.0):
    """w after each step of all workers: N steps of the optimizer, one after another, with the gradients of one w."""
    w = np.ones(1)
    state, history = initial_state(optimizer, w), []
    for _ in range(steps):
        for count, gradient in enumerate([len(curvatures) * (c / len(curvatures) * w) for c in curvatures]):
            step = {"step": len(history) * len(curvatures) + count + 1} if optimizer in ("adam", "adamw") else {}
            OPTIMIZERS[optimizer].define(w, *state.values(), gradient, rate, **OPTIMIZERS[optimizer].options, **step)
        history.append(w.copy())
    return history


@pytest.mark.parametrize("optimizer", ["sgd", "momentum", "nesterov", "adagrad", "adam", "adamw"])
def test_snapshot_0_is_a_sum_of_synchronous_steps(optimizer):
    """Whoever is slow."""
    curvatures = [0.3, 0.7, 0.11]
    expected = synchronous_steps(curvatures, optimizer, 0.1, 6)
    for seed in range(5):
        owner, _ = springs("snapshot:0", curvatures, 6, random_clock(seed, 3, 3.0), rate=0.1, optimizer=optimizer)
        assert np.array(owner.history[3::3]).tobytes() == np.array(expected).tobytes()
    other, _ = springs("bounded:0", curvatures, 6, random_clock(0, 3, 3.0), rate=0.1, optimizer=optimizer)
    assert other.history[-1] != expected[-1]  # without snapshot reads: who comes late reads the others' updates


def test_snapshot_0_is_the_synchronous_step_where_sums_are_exact():
    """η / N of each gradient is η of their mean. Not with Adagrad: its N steps are not one of the mean."""
    for optimizer, same in (("sgd", True), ("momentum", False), ("adagrad", False)):
        curvatures, clock = [0.5, 0.25, 1.0, 0.25], random_clock(1, 4, 3.0)
        whole, _ = springs("synchronous", curvatures, 8, clock, rate=0.5, optimizer=optimizer)
        each, _ = springs("snapshot:0", curvatures, 8, clock, rate=0.5 / 4, optimizer=optimizer)
        assert (np.array(whole.history).tobytes() == np.array(each.history[::4]).tobytes()) == same


# ---- backup, softsync ------------------------------------------------------------------------------------------------

def ends_of_steps(needed, workers, seconds, steps):
    """When each step ends: an order statistic of who began it, each when it was free."""
    end, free, clock, ends = 0.0, [0.0] * workers, [0] * workers, []
    for _ in range(steps):
        begins = [max(end, f) for f in free]
        done = [b + seconds(w, clock[w]) for w, b in enumerate(begins)]
        end = sorted(done)[needed - 1]
        for w in range(workers):
            if begins[w] < end:
                free[w], clock[w] = done[w], clock[w] + 1
        ends.append(end)
    return ends


def times_of_updates(rule, workers, seconds, steps):
    """When the owner updated, and its owner."""
    owner, happened = springs(rule, [0.1] * workers, steps, seconds)
    pushes = iter([(time, worker) for time, what, worker, _ in happened if what == "push"])
    again, times, pushing = Watched(0, 1, workers, steps, VARIABLE, options(), rule), [], set()
    for worker in owner.record:  # the record, step by step, and at what time each of its pushes came
        if worker in pushing:
            time, who = next(pushes)
            assert who == worker
            again.push(worker, Spring(0.1, workers).gradients(0, {"w": np.ones(1)}))
            times += [time] * (again.version - len(times))
        else:
            again.pull(worker, {})
        pushing ^= {worker}
    return times


@pytest.mark.parametrize("backup", [0, 1, 2])
def test_a_step_takes_as_long_as_the_order_statistic(backup):
    for seed in range(10):
        rng = np.random.default_rng(seed)
        fixed = rng.permutation(np.arange(1.0, 6.0))
        ends = times_of_updates(f"backup:{backup}", 5, fixed.tolist(), 4)
        assert ends == [(5.0 - backup) * step for step in (1, 2, 3, 4)]  # the N-th of N + b
        clock = random_clock(seed, 5, 4.0)
        assert times_of_updates(f"backup:{backup}", 5, clock, 6) == ends_of_steps(5 - backup, 5, clock, 6)
        assert times_of_updates(f"backup:{backup}", 5, clock, 6) != ends_of_steps(4 - backup, 5, clock, 6)


def test_backup_0_is_synchronous_and_a_late_push_is_dropped():
    clock = random_clock(3, 4, 4.0)
    both = [springs(rule, [0.1, 0.2, 0.3, 0.4], 5, clock)[0] for rule in ("synchronous", "backup:0")]
    assert np.array(both[0].history).tobytes() == np.array(both[1].history).tobytes()
    owner, _ = springs("backup:2", [0.5, 0.5, 64.0, 64.0], 3, [1.0, 1.0, 1.5, 1.5])
    assert np.array(owner.history).ravel().tolist() == [1, 0.5, 0.25, 0.125] and owner.clocks[2] == 2


@pytest.mark.parametrize("n", [1, 2, 4, 8])
def test_softsync_is_about_n_updates_old(n):
    """n (1 - 1 / N), of N workers of one speed that began one after another."""
    owner, _ = springs(f"softsync:{n}", [0.001] * 8, 200, lambda worker, clock: 1.0 + (clock == 0) * worker / 8)
    mean = sum(updates * count for updates, count in owner.staleness.items()) / owner.staleness.total()
    assert mean == pytest.approx(n * 7 / 8, rel=0.02)
    assert owner.staleness.total() == 1600 and owner.version == 200 * n


def test_softsync_1_of_workers_in_step_is_synchronous():
    """As far as it goes: from its second step on a worker pulls before the others have pushed."""
    soft, whole = (springs(rule, [0.5, 0.25], 1, [1.0, 1.0])[0] for rule in ("softsync:1", "synchronous"))
    assert soft.history == whole.history


# ---- corrections -----------------------------------------------------------------------------------------------------

class Hessian(DelayCompensated):
    """λ = f'' / G²: with it G ⊙ G stands for f'' exactly."""

    def strength(self, name, values, at, own):
        return 0.5 / np.maximum(own * own, 1e-300)


class Aliased(Watched):
    """A classic bug: the old values are the current ones."""

    def push(self, worker, gradients):
        at, _, updates = self.pulled[worker]["w"]
        self.pulled[worker]["w"] = at, self.values["w"], updates
        super().push(worker, gradients)


def test_dc_asgd_is_the_undelayed_step_on_the_quadratic():
    """Exact numbers: w is a power of two."""
    def compensated(workers, **how):
        correction = how.pop("correction", Hessian(workers))
        owner, _ = springs("asynchronous", [0.5] * workers, 40 // workers, [1.0] * workers, correction=correction, **how)
        return np.array(owner.history).ravel().tolist()

    for workers in (1, 2, 4, 8):
        assert compensated(workers) == [0.5**t for t in range(41)]
    assert compensated(2, kind=Aliased) != [0.5**t for t in range(41)]
    assert compensated(2, correction="none") != [0.5**t for t in range(41)]


def test_corrections_are_their_equations():
    """One gradient, two updates old."""
    w, b, g = np.array([3.0, 1.0]), np.array([1.0, 2.0]), np.array([0.5, -2.0])
    for workers in (1, 4):
        expected = [0.5 + 0.25 * workers * 0.25 * 2, -2 - 0.25 * workers * 4]
        assert DelayCompensated(workers, 0.25)("w", w, ..., g, np.array(2), b).tolist() == expected
    adaptive, squares = Adaptive(2, 2.0, 0.75, 0.5), np.zeros(2)
    for _ in range(3):
        squares = 0.75 * squares + 0.25 * (4 * g * g)
        expected = g + 2.0 / np.sqrt(squares + 0.5) * (2 * g) * g * (w - b)
        assert adaptive("w", w, ..., g, np.array(2), b).tolist() == expected.tolist()


def rows_apart(kind=Owner):
    """Staleness when each worker touches a row of its own, and after three steps all touch both."""
    table = [Variable("table", (2, 1), sparse=True, dtype="float64")]
    owner = kind(0, 1, 2, 6, table, options())
    run([owner], [Rows([0], [0], [0], [0, 1]), Rows([1], [1], [1], [0, 1])], table, [1.0, 1.0])
    return owner.staleness


def test_staleness_is_counted_by_row():
    class ByVersion(Owner):
        def pull(self, worker, rows):
            self.updates["table"][:] = self.version
            return super().pull(worker, rows)

        def corrected(self, v, push):
            self.updates["table"][:] = self.version
            return super().corrected(v, push)

    assert rows_apart() == {0: 10, 1: 4}  # 1: of the fourth step all rows but the first, and then row 0
    assert rows_apart(ByVersion) != rows_apart()


# ---- refusals --------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("text, words", [
    ("lazy", "no consistency is called 'lazy': write one of synchronous, asynchronous, bounded:S, snapshot:S, softsync:n"),
    ("bounded", "no consistency is called 'bounded'"), ("synchronous:1", "no consistency is called 'synchronous:1'"),
    ("bounded:-1", "S must be a whole number, from 0 on"), ("bounded:x", "S must be a whole number"),
    ("backup:4", "B must be a whole number, from 0 to 3, with 4 workers"), ("softsync:0", "n must be .* from 1 to 4"),
    ("softsync:5", "n must be .* from 1 to 4"),
])
def test_a_consistency_that_is_none(text, words):
    with pytest.raises(ValueError, match=words):
        consistency(text, 4, 1)


@pytest.mark.parametrize("changes, correction, words", [
    ({"clip_norm": 1.0}, "none", "set clip_norm None"), ({"average_sparse": False}, "none", "average_sparse True"),
    ({}, "luck", "no correction is called 'luck': write one of none"),
    ({"optimizer": "adam"}, "staleness-aware", "take sgd or momentum"),
])
def test_an_owner_that_cannot_be(changes, correction, words):
    with pytest.raises(ValueError, match=words):
        Owner(0, 1, 1, 1, VARIABLE, options(**changes), "asynchronous", correction)


def test_rows_that_were_not_pulled_are_not_pushed():
    table = [Variable("table", (4, 1), sparse=True, dtype="float64")]
    owner = Owner(0, 1, 1, 1, table, options())
    owner.pull(0, {"table": np.array([0, 2])})
    with pytest.raises(ValueError, match="worker 0 pushes rows of table that it has not pulled"):
        owner.push(0, Rows([1, 2]).gradients(0, {}))
