"""Bytes and throughput without barriers: counted message by message, by the plain clock, and in closed form."""

from dataclasses import replace

import numpy as np
import pytest

from kernels import RowGradient
from models import Constant, Variable
from refimpl.collectives.simulation.network import Network
from refimpl.plain.training.hybrid import Options
from refimpl.plain.without_barriers.async_worker import Step
from refimpl.plain.without_barriers.owner import Owner
from refimpl.plain.without_barriers.scripted_clock import run
from refimpl.plan import make_plan
from refimpl.plan.cost import bytes_between
from refimpl.plan.predict import Predictor
from refimpl.plan.sample import Sample
from refimpl.plan.without_barriers import (
    bytes_of_last_pull, bytes_of_worker_step, predict_without_barriers, seconds_with,
)
from refimpl.plan.without_barriers.clock import Clock
from refimpl.plan.without_barriers.predict import PUSHES, at_work, rules
from refimpl.strategies.hot_rows import with_hot_rows

TABLE, RARE = Variable("table", (12, 5), sparse=True), Variable("rare", (7, 2), sparse=True, dtype="float64")
DENSE, SCALAR = Variable("dense", (8,)), Variable("scalar", (), initial=Constant(1.0))
MIXED = [TABLE, DENSE, RARE, SCALAR]


# ---- bytes -----------------------------------------------------------------------------------------------------------

class Random:
    """A share of the work that touches some of the rows that it needs."""

    def __init__(self, worker):
        self.rng = np.random.default_rng(worker)

    def needs(self, clock):
        return {v.name: np.flatnonzero(self.rng.random(v.shape[0]) < 0.6) for v in MIXED if v.sparse}

    def gradients(self, clock, values):
        def rows(v):
            return np.flatnonzero(self.rng.random(v.shape[0]) < 0.3)
        self.touched = {v.name: ids for v in MIXED if v.sparse for ids in [rows(v)]}
        return {v.name: RowGradient(self.touched[v.name], np.ones((len(self.touched[v.name]), v.shape[1]), v.dtype))
                if v.sparse else np.ones(v.shape, v.dtype) for v in MIXED}


def handed_over(ranks, worker):
    """Return (bytes of the arrays that a plain worker and owners hand each other in a step, needs, touched)."""
    owners = [Owner(i, ranks, ranks, 1, MIXED, Options("sgd", 1.0)) for i in range(ranks)]
    share, found = Random(worker), {}
    step = Step(share, 0, MIXED, ranks)

    def count(source, target, phase, name, kind, array):
        if source != target and array.nbytes:
            found.setdefault((phase, name, kind), np.zeros((ranks, ranks), np.int64))[source, target] += array.nbytes

    for o, owner in enumerate(owners):
        step.answers[o] = owner.pull(worker, step.rows(o))
        for name, ids in step.rows(o).items():
            count(worker, o, "pull", name, "indices", ids)
        for name, values in step.answers[o][1].items():
            count(o, worker, "pull", name, "rows" if name in step.needs else "dense", values)
    for o in range(ranks):
        for name, g in step.gradients(o).items():
            parts = {"indices": g.ids, "rows": g.rows} if isinstance(g, RowGradient) else {"dense": g}
            for kind, array in parts.items():
                count(worker, o, "push", name, kind, array)
    return found, step.needs, share.touched


def plain_plan(ranks, microbatches):
    """Return the plan that has everything where the plain owners have it."""
    plan = make_plan(MIXED, "ps", ranks, microbatches, scheme="interleaved", local_aggregation=False)
    return plan.replaced({v.name: replace(plan.strategies[v.name], owners=tuple(range(ranks)) if v.sparse
                                          else (i % ranks,)) for i, v in enumerate(MIXED)})


def without_control(matrices):
    return {key: matrix.tolist() for key, matrix in matrices.items() if key[2] != "control"}


@pytest.mark.parametrize("ranks", [1, 2, 3, 5])
def test_bytes_are_those_of_the_arrays_that_workers_and_owners_hand_over(ranks):
    plan = plain_plan(ranks, 2 * ranks + 1)
    for worker in range(ranks):
        expected, needs, touches = handed_over(ranks, worker)
        found = bytes_of_worker_step(plan, MIXED, worker, needs, touches)
        assert without_control(found) == without_control(expected)
        others = np.arange(ranks) != worker
        for phase, back in (("pull", 16), ("push", 0)):  # S = 2
            control = found.get((phase, "", "control"), np.zeros((ranks, ranks), np.int64))
            assert control[worker].tolist() == (24 * others).tolist()
            assert control[:, worker].tolist() == (back * others).tolist()
        if ranks > 1:
            more = {**touches, "table": np.arange(12)}
            assert without_control(bytes_of_worker_step(plan, MIXED, worker, needs, more)) != without_control(expected)


def test_the_last_pull():
    plan = plain_plan(3, 3)
    assert without_control(bytes_of_last_pull(plan, MIXED, 1)) == {}
    asked = {"table": np.array([0, 1, 3]), "rare": np.array([2])}  # of owners 0, 1, 0; 2
    found = bytes_of_last_pull(plan, MIXED, 1, asked)
    step = bytes_of_worker_step(plan, MIXED, 1, asked, {"table": np.empty(0, int), "rare": np.empty(0, int)})
    assert {key: bytes_.tolist() for key, bytes_ in found.items()} == {
        key: bytes_.tolist() for key, bytes_ in step.items() if key[0] == "pull"}
    assert found["pull", "", "control"].tolist() == [[0, 16, 0], [24, 0, 24], [0, 16, 0]]


def test_workers_together_move_what_synchronous_ranks_of_one_microbatch_move():
    ranks, rng = 4, np.random.default_rng(0)
    plan = make_plan(MIXED, "ps", ranks, ranks, partitions=3, local_aggregation=False)
    pulled, pushed = ({v.name: [np.flatnonzero(rng.random(v.shape[0]) < 0.5) for _ in range(ranks)] for v in MIXED
                       if v.sparse} for _ in range(2))
    total = {}
    for worker in range(ranks):
        rows = ({name: of[worker] for name, of in each.items()} for each in (pulled, pushed))
        for key, matrix in bytes_of_worker_step(plan, MIXED, worker, *rows).items():
            total[key] = total.get(key, 0) + matrix
    nodes = {name: [[ids] for ids in of] for name, of in pushed.items()}
    assert without_control(total) == without_control(bytes_between(plan, MIXED, pulled, nodes))


@pytest.mark.parametrize("plan, words", [
    (make_plan(MIXED, "hybrid", 2, 2), "dense has strategy allreduce: take --architecture ps"),
    (make_plan(MIXED, "allreduce", 2, 2), "table has strategy allgather: take --architecture ps"),
    (with_hot_rows(make_plan(MIXED, "ps", 2, 2), {"table": 2}), "table has strategy hot-rows: .*without --hot-rows"),
])
def test_every_variable_is_on_the_server(plan, words):
    for function in (bytes_of_worker_step, bytes_of_last_pull):
        with pytest.raises(ValueError, match=words):
            function(plan, MIXED, 0, {"table": np.array([1])}, *[{}] * (function is bytes_of_worker_step))


# ---- the clock -------------------------------------------------------------------------------------------------------

W = [Variable("w", (1,), dtype="float64", initial=Constant(1.0))]
RULES = ["synchronous", "asynchronous", "bounded:0", "bounded:2", "snapshot:0", "snapshot:2", "softsync:1",
         "softsync:2", "backup:0", "backup:1"]


class Small:
    def needs(self, clock):
        return {}

    def gradients(self, clock, values):
        return {"w": values["w"] / 1024}


def clocks_of(workers):
    """Yield seconds of workers: all alike, one slow, at random."""
    yield [1.0] * workers
    yield [1.0] * (workers - 1) + [3.0]
    for seed in range(8):
        table = np.random.default_rng(seed).uniform(1, 3, (workers, 1000))
        table[seed % workers] *= 4
        yield lambda worker, clock, table=table: table[worker, clock]


@pytest.mark.parametrize("rule", RULES)
def test_events_are_those_of_the_plain_clock(rule):
    for workers in (2, 3, 5):
        for seconds in clocks_of(workers):
            owners = [Owner(i, 2, workers, 7, W, Options("sgd", 1.0), rule) for i in range(2)]
            happened = run(owners, [Small()] * workers, W, seconds)
            clock = Clock(rule, workers, 7, seconds)
            found = clock.run()
            assert found.events == happened and clock.version == owners[0].version
            ages = list(found.staleness.values())
            assert {age: ages.count(age) for age in ages} == owners[0].staleness


def test_events_tell_another_rule():
    found = {rule: Clock(rule, 4, 7, [1.0, 1.0, 1.0, 3.0]).run() for rule in RULES}
    alike = [{"synchronous", "bounded:0", "snapshot:0", "backup:0"}, {"bounded:2", "snapshot:2"},
             {"asynchronous", "softsync:1", "softsync:2"}]
    for one in RULES:
        for other in RULES:
            same = one == other or any({one, other} <= group for group in alike)
            assert (found[one].events == found[other].events) == same


# ---- throughput ------------------------------------------------------------------------------------------------------

def rate(rule, seconds, steps=300):
    return at_work(Clock(rule, len(seconds), steps, seconds).run(), len(seconds))


@pytest.mark.parametrize("seconds", [[1.0, 1.0, 1.0, 3.0], [1.0, 2.0, 4.0, 8.0], [5.0, 3.0], [2.0] * 5, [0.25]])
def test_throughput_in_closed_form(seconds):
    n, slowest = len(seconds), max(seconds)
    assert rate("synchronous", seconds) == (n / slowest, 0, 1)  # a step takes the maximum
    for rule in ("bounded:0", "bounded:2", "snapshot:1"):
        assert rate(rule, seconds)[0] == n / slowest  # all at the slowest's rate
    assert rate("asynchronous", seconds)[0] == pytest.approx(sum(1 / s for s in seconds), rel=1e-12)
    for backup in range(1, n):
        needed = n - backup
        applied, _, part = rate(f"backup:{backup}", seconds)
        assert applied == pytest.approx(needed / sorted(seconds)[needed - 1], rel=0.01)  # the order statistic
        assert part < 1


def test_staleness_in_closed_form():
    """n (1 - 1 / N) of N workers of one speed under softsync:n; asynchronous is softsync:N."""
    assert rate("asynchronous", [1.0] * 6)[1] == 5
    assert [rate(f"softsync:{n}", [1.0] * 6)[1] for n in (1, 2, 3, 6)] == pytest.approx([5 / 6, 10 / 6, 15 / 6, 5])
    rates = rate("asynchronous", [1.0, 1.0, 1.0, 3.0])
    assert rates[1] == pytest.approx((9 * (2 + 1 / 3) + 9) / 10, rel=0.01)  # 9 of 10 see the slow one every third time


def predictor_of(machines, seed=0, latency=0.0, speed=1e6, **more):
    """Return (plan, predictor): every microbatch touches some rows of an evenly dealt table."""
    ranks, rng = sum(map(len, machines)), np.random.default_rng(seed)
    table = Variable("table", (64 * ranks, 16), sparse=True)
    dense = [Variable(f"dense{i}", (512,)) for i in range(ranks)]
    needs = [np.sort(rng.permutation(64 * ranks)[:32 * ranks]) for _ in range(ranks)]
    sample = Sample(ranks, {"table": 64 * ranks}, (0,), ({"table": needs},))
    plan = make_plan([*dense, table], "ps", ranks, ranks, scheme="interleaved", machines=machines, **more)
    return plan, Predictor([*dense, table], sample, Network(machines, latency, speed, speed, 0.0, speed, np.inf))


@pytest.mark.parametrize("machines", [((0,), (1,), (2,), (3,)), ((0, 1), (2, 3)), ((0, 1, 2),)])
def test_synchronous_exchanges_take_what_the_plan_predicts(machines):
    plan, predictor = predictor_of(machines, local_aggregation=False)
    computing, exchanging = 1e-6, predictor.seconds(plan)
    found = predict_without_barriers(plan, predictor, [computing] * plan.ranks)
    assert found[0].consistency == "synchronous"
    assert plan.ranks / found[0].steps == pytest.approx(computing + exchanging, rel=0.02)
    aggregated = replace(plan, local_aggregation=True)
    assert predict_without_barriers(aggregated, predictor, [computing] * plan.ranks) == found


def test_messages_cost_what_a_slow_network_asks():
    plan, predictor = predictor_of(((0,), (1,)), speed=1e15, latency=0.25)
    found = {p.consistency: p for p in predict_without_barriers(plan, predictor, [1.0, 2.0])}
    assert found["synchronous"].steps == pytest.approx(2 / 2.5)  # there and back
    assert found["asynchronous"].steps == pytest.approx(1 / 1.5 + 1 / 2.5)
    plan, predictor = predictor_of(((0,), (1,)), speed=1e3)
    card = 1e3 / (predict_without_barriers(plan, predictor, [1e-6] * 2)[0].nbytes / 2)  # steps/s of a card, each way
    for each in predict_without_barriers(plan, predictor, [1e-6, 2e-6]):
        assert each.steps * (1 / each.applied) <= card * 1.01  # no card is faster than itself
    assert found["asynchronous"].nbytes == found["backup:1"].nbytes and found["backup:1"].applied < 1


def test_one_worker_alone_and_many():
    plan, predictor = predictor_of(((0,),), latency=1.0)
    found = predict_without_barriers(plan, predictor, [0.5], "bounded:7")
    assert [p.consistency for p in found] == ["synchronous", "bounded:2", "asynchronous", "bounded:7"]
    assert {(p.steps, p.staleness, p.nbytes) for p in found} == {(2.0, 0.0, 0.0)}
    assert rules(4) == ["synchronous", "backup:1", "bounded:2", "softsync:2", "asynchronous"]
    assert rules(4, "bounded:2") == rules(4) and rules(4, "softsync:4") == [*rules(4), "softsync:4"]
    assert rate("asynchronous", [1.0] * 500, PUSHES // 500)[0] == 500


def test_refusals():
    for asked, words in (("backup:4", "from 0 to 3"), ("gossip", "no consistency is called 'gossip'")):
        with pytest.raises(ValueError, match=words):
            rules(4, asked)
    assert seconds_with(2.0, [(1, 3.0)], 3) == [2.0, 6.0, 2.0]
    with pytest.raises(ValueError, match="--slow-rank 3: there is no such rank; name one from 0 to 2"):
        seconds_with(1.0, [(3, 2.0)], 3)
    for compute, factor in ((1e-10, 1.0), (1.0, 1e300)):
        with pytest.raises(ValueError, match="give 1e-9 to 1e9 s"):
            seconds_with(compute, [(1, factor)], 3)
    with pytest.raises(ValueError, match="--slow-rank 1 is given 2 times"):
        seconds_with(1.0, [(1, 2.0), (1, 3.0)], 3)
