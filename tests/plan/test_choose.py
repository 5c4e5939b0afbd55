"""Constructed cases in which each strategy wins, and what holds of every choice."""

import math

import numpy as np
import pytest

from models import Variable
from refimpl.collectives.choose import make_schedule
from refimpl.collectives.simulation.network import Network
from refimpl.collectives.simulation.simulate import simulate
from refimpl.plan import make_plan
from refimpl.plan.choose import BEGINNINGS, busiest_shares, choose_plan
from refimpl.plan.predict import AllreduceTime, Predictor, seconds_of, traffic_of
from refimpl.plan.report import as_data, describe
from refimpl.plan.sample import Sample
from refimpl.transport.machines import in_blocks

ROWS, WIDTH = 4096, 16
TABLE = Variable("table", (ROWS, WIDTH), sparse=True)
WEIGHT = Variable("weight", (300, 200))
WORDS = Variable("words", (24, 2), sparse=True)


def network(machines, each=1, latency=5e-5, rate=25e6, **more):
    return Network(in_blocks(machines * each, each), latency, rate, rate, **more)


def sample_of(sets, rows=ROWS, name="table"):
    """sets[v]: rows that microbatch v touches, in the one sampled step."""
    return Sample(len(sets), {name: rows}, (0,), ({name: [np.unique(np.asarray(ids, np.int64)) for ids in sets]},))


def spread(ranks, alpha, seed=1):
    """Every worker touches the same part of the rows, its own draw."""
    rng = np.random.default_rng(seed)
    return sample_of([rng.choice(ROWS, round(alpha * ROWS), replace=False) for _ in range(ranks)])


def names(chosen):
    return {variable: strategy.name for variable, strategy in chosen.plan.strategies.items()}


def test_large_dense_variables_go_by_allreduce_and_few_rows_by_the_server():
    """The hybrid: the owner of a dense variable would be a hot spot, and everyone's rows are a few of many."""
    chosen = choose_plan([TABLE, WEIGHT], spread(8, 0.02), network(8), 8)
    assert names(chosen) == {"table": "server", "weight": "allreduce"}
    assert chosen.totals["auto"] == chosen.totals["hybrid"]
    weight = chosen.forecasts[1].candidates
    assert weight["server"].card_bytes == 2 * WEIGHT.nbytes * 7
    assert weight["allreduce"].card_bytes == WEIGHT.nbytes * 4 * 7 // 8


def test_a_sparse_variable_goes_as_dense_from_some_alpha_on():
    """One crossing, where the forecasts of both sides say that it is."""
    strategy_at, crossings = {}, {}
    for alpha in (0.02, 0.2, 0.4, 0.6, 0.8, 1.0):
        chosen = choose_plan([TABLE, WEIGHT], spread(8, alpha), network(8), 8)
        strategy_at[alpha], crossings[alpha] = names(chosen)["table"], chosen.forecasts[0].crossing
        assert chosen.forecasts[0].alpha == pytest.approx(alpha, rel=0.01)
    found = list(strategy_at.values())
    first = found.index("as-dense")
    assert 0 < first and found == ["server"] * first + ["as-dense"] * (len(found) - first)
    alphas = list(strategy_at)
    assert alphas[first - 1] < crossings[alphas[first]] < alphas[first] * 1.01
    assert all((alpha > crossings[alpha]) == (name == "as-dense") for alpha, name in strategy_at.items())


def test_a_slow_start_favours_what_sends_fewer_messages():
    """A few rows: all that costs is latency, and the server's three messages are more than an allreduce's two."""
    small = Variable("table", (12, 2), sparse=True)
    rows = sample_of([[v, v + 4] for v in range(4)], rows=12)
    chosen = choose_plan([small], rows, network(4, latency=0.05), 4)
    candidates = chosen.forecasts[0].candidates
    table = names(chosen)["table"]
    assert table != "server" and candidates[table].alone < candidates["server"].alone / 1.4
    assert names(choose_plan([small, WEIGHT], rows, network(4, latency=0.05), 4))["table"] != "server"


def test_a_hot_owner_loses_its_variable():
    """The same bytes, once on all owners, once on one: then its card carries what an allgather puts on every card."""
    fast = network(4, latency=1e-6)
    even = sample_of([np.arange(64) * 64 + v for v in range(4)])
    hot = sample_of([np.arange(64) + 64 * v for v in range(4)])  # all in the first partition
    one, other = (choose_plan([TABLE], rows, fast, 4) for rows in (even, hot))
    assert names(one)["table"] == "server" and names(other)["table"] == "allgather"
    assert other.forecasts[0].candidates["server"].card_bytes > 1.9 * one.forecasts[0].candidates["server"].card_bytes
    dealt = choose_plan([TABLE], hot, fast, 4, scheme="interleaved")
    assert names(dealt)["table"] == "server"  # no row is hot, a range was


def test_a_slow_machine_is_seen_where_its_card_is_used():
    """Whoever owns all rows on the slow machine waits for it: the same plan takes longer."""
    rates = (25e6, 25e6, 25e6, 2.5e6)
    slow = Network(in_blocks(4, 1), 5e-5, rates, rates)
    plan = make_plan([TABLE], "hybrid", 4, 4, machines=slow.machines)
    rows = spread(4, 0.1)
    assert Predictor([TABLE], rows, slow).seconds(plan) > 5 * Predictor([TABLE], rows, network(4)).seconds(plan)


@pytest.mark.parametrize("seed", range(6))
def test_no_architecture_is_predicted_to_be_faster_than_auto_nor_any_single_change(seed):
    rng = np.random.default_rng(seed)
    machines, each = int(rng.integers(1, 5)), int(rng.integers(1, 4))
    net = network(machines, each, latency=10 ** rng.uniform(-6, -2), rate=10 ** rng.uniform(6, 9), overhead=1e-6)
    leaves = net.ranks + int(rng.integers(0, 3))
    variables = [Variable("table", (97, 3), sparse=True), Variable("w", (40, 5)), Variable("b", (7,)),
                 Variable("other", (31, 1), sparse=True), Variable("scale", ())]
    sets = {name: [np.flatnonzero(rng.random(rows) < rng.random()) for _ in range(leaves)]
            for name, rows in (("table", 97), ("other", 31))}
    sample = Sample(leaves, {"table": 97, "other": 31}, (0,), (sets,))
    chosen = choose_plan(variables, sample, net, leaves)
    assert chosen == choose_plan(variables, sample, net, leaves)  # one sample and network, one plan
    assert chosen.totals["auto"] == min(chosen.totals.values()) and set(chosen.totals) == {"auto", *BEGINNINGS}
    for forecast in chosen.forecasts:
        best = forecast.candidates[forecast.strategy].step
        assert best == pytest.approx(chosen.totals["auto"])
        assert all(other.step >= best * (1 - 1e-8) for other in forecast.candidates.values())
    assert all(math.isfinite(s) and s >= 0 for s in chosen.totals.values())
    assert "rule" in describe(chosen) and as_data(chosen)["plan"]["architecture"] == "auto"


def test_one_rank_has_nothing_to_choose():
    chosen = choose_plan([TABLE, WEIGHT], spread(1, 0.5), network(1), 1)
    assert names(chosen) == {"table": "server", "weight": "allreduce"}
    assert "  1 dense (0.24 MB): allreduce" in describe(chosen).splitlines()


def test_a_named_architecture_is_forecast_not_chosen():
    chosen = choose_plan([TABLE, WEIGHT], spread(4, 1.0), network(4), 4, architecture="ps", allreduce="ring")
    assert names(chosen) == {"table": "server", "weight": "server"} and "auto" not in chosen.totals
    assert chosen.plan == make_plan([TABLE, WEIGHT], "ps", 4, 4, machines=in_blocks(4, 1), allreduce="ring")
    assert "would save" in chosen.forecasts[0].reason
    sharded = choose_plan([TABLE, WEIGHT], spread(4, 1.0), network(4), 4, architecture="hybrid", shard_optimizer=True)
    assert names(sharded) == {"table": "server", "weight": "reduce-scatter"}
    own = sharded.forecasts[1].candidates
    assert own["reduce-scatter"].card_bytes == pytest.approx(own["allreduce"].card_bytes, rel=0.02)
    assert own["reduce-scatter"].step == sharded.totals["hybrid, optimizer sharded"]
    with pytest.raises(ValueError, match="no architecture 'telepathy'"):
        choose_plan([TABLE], spread(4, 1.0), network(4), 4, architecture="telepathy")


@pytest.mark.parametrize("width", [250, 2500, 5000])
def test_the_seconds_of_a_server_by_hand(width):
    """Two machines; rank 1 wants row 0 of rank 0 and pushes it: latencies, messages, and the bytes of each round.

    Row numbers go with their lengths, and so do pushed rows if all are at most 16 KiB.
    """
    rows, size = Variable("rows", (2, width), sparse=True), 4 * width
    net = Network(in_blocks(2, 1), 0.5, 1000.0, 2000.0, reduction=4000.0, overhead=0.25)
    plan = make_plan([rows], "hybrid", 2, 2, machines=net.machines)
    traffic = traffic_of([(rows, plan.strategies["rows"])], plan, Sample(2, {"rows": 2}, (0,), ({"rows": [
        np.empty(0, np.int64), np.array([0])]},)))
    messages = {("pull", "control"): (2, 8), ("pull", "indices"): (1, 8), ("pull", "rows"): (1, size),
                ("push", "control"): (2, 8), ("push", "indices"): (1, 8), ("push", "rows"): (1, size)}
    assert {name: (column.max(), traffic.moved[name][0].max()) for name, column in traffic.messages.items()} == messages
    work = 2 * size / 4000  # rank 0 adds up one row and updates it
    moved = sum(nbytes / 1000 for _, nbytes in messages.values()) + work

    def own(along):
        return sum(0.5 + 0.25 * count for name, (count, _) in messages.items()
                   if name[1] != "indices" and not (along and name == ("push", "rows")))

    assert seconds_of(traffic, net) == pytest.approx(own(along=width < 5000) + moved)
    # two variables: the bytes of both, the messages of one
    assert seconds_of(traffic + traffic, net) == pytest.approx(own(along=width < 2500) + 2 * moved)


def test_an_allreduce_on_cables_is_chosen_where_the_architecture_is_named():
    with pytest.raises(ValueError, match="auto:ring-4 needs a training that names its architecture"):
        choose_plan([TABLE, WEIGHT], spread(4, 1.0), network(4), 4, allreduce="auto:ring-4")


def test_times_of_an_allreduce_are_simulated_at_powers_of_two_and_lie_between():
    net = network(4, 2)
    time = AllreduceTime("hierarchical", net, 8, 4)
    schedule = make_schedule("hierarchical", 8, 8, machines=net.machines)
    assert time.seconds(1 << 12) == simulate(schedule, net, 1 << 12, 4).seconds
    assert time.seconds(1 << 12) < time.seconds(5000) < time.seconds(1 << 13) and time.seconds(0) == 0
    assert time.seconds(5000) == pytest.approx(simulate(schedule, net, 5000, 4).seconds, rel=0.02)


def words_of(*ids):
    return sample_of(ids, 24, "words")


def test_rows_asked_for_alike_fall_on_the_owner_of_most_partitions():
    shares = busiest_shares([WORDS], words_of(*[range(24)] * 4), in_blocks(4, 1), (1, 2, 3, 4, 6, 8, 12, 24))
    assert shares == pytest.approx({p: -(-p // 4) / p for p in (1, 2, 3, 4, 6, 8, 12, 24)})


def test_popular_rows_weigh_more_and_a_machine_asks_once():
    two = words_of([0, 1], [0], [0], [0, 5])
    assert busiest_shares([WORDS], two, in_blocks(4, 1), [4], "contiguous") == {4: 1.0}  # rows 0 to 5: one owner
    assert busiest_shares([WORDS], two, in_blocks(4, 1), [24]) == pytest.approx({24: 4 / 6})
    assert busiest_shares([WORDS], two, in_blocks(4, 2), [24]) == pytest.approx({24: 2 / 4})
    assert busiest_shares([WORDS], words_of([], []), in_blocks(2, 1), [2]) == {2: 0.0}
