"""Simulated times against closed formulas, fair rates against their definition, contention, columns, network files."""

import json
import math
from collections import Counter

import numpy as np
import pytest

from refimpl.collectives import ALGORITHMS, Round, Schedule, Sum, Transfer, make_schedule
from refimpl.collectives.algorithms.halves import one_node_each
from refimpl.collectives.choose import _schedule
from refimpl.collectives.links import named_links
from refimpl.collectives.running.segments import LANES
from refimpl.collectives.simulation.bursts import fair_rates
from refimpl.collectives.simulation.columns import AT_SCALE, columns, round_columns, to_predict
from refimpl.collectives.simulation.network import Network, load_network
from refimpl.collectives.simulation.places import GraphNetwork, ways_of
from refimpl.collectives.simulation.simulate import SIMULATED, seconds_of, simulate
from refimpl.transport.machines import in_blocks

ALPHA, BETA, GAMMA = 50e-6, 1 / 25e6, 1 / 3e9
ROUNDING = 1e-9  # relative: moments are summed up over hundreds of events, those closer than 1e-12 are one


def network(ranks, each=1, **other):
    given = {"latency": ALPHA, "bandwidth_out": 1 / BETA, "bandwidth_in": 1 / BETA, "reduction": 1 / GAMMA,
             "latency_within": 1e-6, "memory_bandwidth": 5e9, **other}
    return Network(in_blocks(ranks, each), **given)


def seconds(name, ranks, n, **given):
    return simulate(make_schedule(name, ranks, ranks), network(ranks), n // 4, 4, **given).seconds


@pytest.mark.parametrize("p", [2, 4, 8, 64])
@pytest.mark.parametrize("n", [1 << 12, 1 << 20])
def test_closed_formulas_for_powers_of_two(p, n):
    """Thakur, Rabenseifner & Gropp 2005, sections 4.1 to 4.5; n bytes, divisible by p elements."""
    lg = p.bit_length() - 1
    move, add = (p - 1) / p * n * BETA, (p - 1) / p * n * GAMMA
    assert seconds("recursive-doubling", p, n) == pytest.approx(lg * (ALPHA + n * BETA + n * GAMMA), rel=ROUNDING)
    for name in ("rabenseifner", "halving-doubling", "binary-blocks"):
        assert seconds(name, p, n) == pytest.approx(2 * lg * ALPHA + 2 * move + add, rel=ROUNDING)
    tree = lg * (ALPHA + n * BETA + n * GAMMA) + lg * (ALPHA + n * BETA)
    assert seconds("binomial-tree", p, n) == pytest.approx(tree, rel=ROUNDING)


@pytest.mark.parametrize("p", [2, 3, 4, 5, 7, 8, 16, 17, 33])
def test_closed_formulas_for_any_number(p):
    n = 4 * 1000 * p
    move, add = (p - 1) / p * n * BETA, (p - 1) / p * n * GAMMA
    assert seconds("ring", p, n) == pytest.approx(2 * (p - 1) * ALPHA + 2 * move + add, rel=ROUNDING)
    assert seconds("direct", p, n) == pytest.approx(2 * ALPHA + 2 * move + add, rel=ROUNDING)


def test_bytes_of_each_machine_are_the_schedules():
    for name in ("ring", "direct", "rabenseifner", "binomial-tree", "double-tree"):
        schedule = make_schedule(name, 7, 7)
        found = simulate(schedule, network(7), 1001, 4)
        assert found.bytes_out.tolist() == [4 * n for n in schedule.elements_sent(1001)]
        assert found.bytes_out.sum() == found.bytes_in.sum() and 0 < found.utilisation <= 1
        assert found.seconds == found.finished.max()
        assert found.seconds >= max(found.bytes_out[found.busiest], found.bytes_in[found.busiest]) * BETA


def moves(ranks, *transfers, sums=()):
    step = Round(tuple(Transfer(*t, 0, 1) for t in transfers), tuple(sums))
    return Schedule("made up", 1, one_node_each(ranks), (step,))


def test_ranks_of_one_machine_share_its_card_and_its_memory():
    both = simulate(moves(4, (0, 2), (1, 3)), network(4, 2), 1000, 4)
    assert both.seconds == pytest.approx(ALPHA + 8000 * BETA, rel=ROUNDING)
    assert both.bytes_out.tolist() == [8000, 0] and both.busiest == 0
    alone = simulate(moves(4, (0, 2), (1, 3)), network(4), 1000, 4)
    assert alone.seconds == pytest.approx(ALPHA + 4000 * BETA, rel=ROUNDING)
    inside = simulate(moves(2, (0, 1), (1, 0)), network(2, 2), 1000, 4)
    assert inside.seconds == pytest.approx(1e-6 + 8000 / 5e9, rel=ROUNDING)
    assert inside.bytes_out.tolist() == [0] and inside.utilisation == 0


def test_many_to_one_takes_the_sum_of_bytes():
    for senders in (1, 2, 7, 40):
        incast = moves(senders + 1, *((r, 0) for r in range(1, senders + 1)))
        found = simulate(incast, network(senders + 1), 1000, 4)
        assert found.seconds == pytest.approx(ALPHA + senders * 4000 * BETA, rel=ROUNDING)
        assert found.busiest == 0 and found.bytes_in[0] == senders * 4000


def test_a_slow_card_and_one_that_frees_its_share():
    # 0 sends to 1 and 2; 2 takes in a quarter of the speed: 1 gets three quarters, then 2 goes on at its own
    slow = Network(in_blocks(3, 1), 0, 100.0, (100.0, 100.0, 25.0))
    found = simulate(moves(3, (0, 1), (0, 2)), slow, 300, 1)
    assert found.seconds == pytest.approx(12, rel=ROUNDING) and found.finished[1] == pytest.approx(4, rel=ROUNDING)
    # 0 and 1 share what 3 takes in; then 1's second message has 2 alone: a rank's round ends with its last message
    shared = Network(in_blocks(3, 1), 0, 100.0, 100.0)
    assert simulate(moves(3, (0, 2), (1, 2), (1, 0)), shared, 100, 1).finished[2] == pytest.approx(2, rel=ROUNDING)


def test_hierarchical_beats_flat_where_machines_have_several_ranks():
    machines = in_blocks(16, 4)
    shared, n = network(16, 4), 1 << 20
    inside = simulate(make_schedule("hierarchical", 16, 16, machines=machines), shared, n, 4)
    flat = {name: simulate(make_schedule(name, 16, 16), shared, n, 4).seconds
            for name in ALGORITHMS if name != "hierarchical"}
    assert inside.seconds < min(flat.values())
    assert inside.bytes_out.tolist() == [2 * 3 * 4 * n // 4] * 4
    line = 2 * 3 / 4 * 4 * n * BETA
    assert line < inside.seconds < 1.05 * line and inside.utilisation == pytest.approx(line / inside.seconds)
    assert flat["direct"] > 3.9 * line


def test_sums_overhead_and_segments():
    step = moves(2, (0, 1), sums=[Sum(1, 0, 1, 0, 1)] * 3)
    assert simulate(step, network(2), 1000, 4).seconds == pytest.approx(ALPHA + 4000 * (BETA + 3 * GAMMA), rel=ROUNDING)
    busy = simulate(make_schedule("direct", 5, 5), network(5, overhead=1e-3), 0, 4)
    assert busy.seconds == 0  # nothing to send, no message
    busy = simulate(make_schedule("direct", 5, 5), network(5, overhead=1e-3), 5000, 4).seconds
    plain = simulate(make_schedule("direct", 5, 5), network(5), 5000, 4).seconds
    assert busy == pytest.approx(plain + 2 * 8e-3, rel=ROUNDING)
    last = simulate(moves(2, (0, 1), sums=[Sum(1, 0, 1, 0, 1)]), network(2, reduction=25e6, latency=0), 1000, 4, 10)
    assert last.seconds == pytest.approx((4000 + 400) * BETA, rel=ROUNDING)  # the last segment's sum is seen
    slow_sums = network(4, reduction=25e6, latency=0)
    schedule, n = make_schedule("ring", 4, 4), 4 * 3600
    whole, cut, uneven = (simulate(schedule, slow_sums, n // 4, 4, s) for s in (1, 3 * LANES, 3 * LANES + 1))
    assert whole.seconds == pytest.approx((2 * 0.75 + 0.75) * n * BETA, rel=ROUNDING)
    assert cut.seconds == pytest.approx(2 * 0.75 * n * BETA, rel=ROUNDING)  # every sum hides behind a transfer
    alone = 3 * 0.25 * n / (3 * LANES + 1) * BETA  # the last segment has no other to hide its three sums behind
    assert uneven.seconds == pytest.approx(2 * 0.75 * n * BETA + alone, rel=ROUNDING)
    assert cut.bytes_out.tolist() == whole.bytes_out.tolist()


def plain_fair_rates(first, second, capacity):
    """Progressive filling as in the textbook: fill all flows alike until a link is full, freeze its flows, go on."""
    rates, free, left = [0.0] * len(first), set(range(len(first))), list(capacity)
    while free:
        crowd = Counter(link for f in free for link in (first[f], second[f]))
        share, link = min((left[link] / flows, link) for link, flows in crowd.items())
        for f in [f for f in free if link in (first[f], second[f])]:
            rates[f] = share
            free.remove(f)
            for taken in (first[f], second[f]):
                left[taken] -= share
    return rates


def test_fair_rates_are_those_of_the_definition():
    random = np.random.default_rng(1)
    for flows in (0, 1, 2, 5, 30, 200):
        for _ in range(20):
            first, second = random.integers(0, 5, flows), random.integers(5, 10, flows)
            capacity = random.integers(1, 20, 10).astype(float)
            rates = fair_rates(np.stack((first, second)), capacity)
            # rounding: shares are differences of sums of up to 200 rates
            np.testing.assert_allclose(rates, plain_fair_rates(first.tolist(), second.tolist(), capacity), rtol=1e-9)


@pytest.mark.parametrize("ranks, leaves", [(8, 8), (16, 32)])
def test_algorithms_at_scale_are_canonical_and_predicted_as_what_is_proved(ranks, leaves, monkeypatch):
    for name in (*AT_SCALE, "ring"):
        machines = in_blocks(ranks, 4) if name == "hierarchical" else None
        proved, canonical = to_predict(name, ranks, leaves, machines)
        monkeypatch.setattr("refimpl.collectives.simulation.columns.PROVED", 4)
        found, same = to_predict(name, ranks, leaves, machines)
        assert same == canonical == (name in AT_SCALE) and not isinstance(found, Schedule)
        network = Network(in_blocks(ranks, 4), 5e-5, 25e6, 25e6)
        assert simulate(found, network, 1000, 4, 3).seconds == simulate(proved, network, 1000, 4, 3).seconds
        monkeypatch.undo()


@pytest.mark.parametrize("name, ranks, leaves, words", [
    ("rabenseifner", 512, 512, "beyond 256 ranks only ring, direct"), ("direct", 512, 700, "1, 2, 4, ... microbatches"),
    ("hierarchical", 512, 512, "equal machines"), ("direct", 16384, 16384, "which is enough for 912 ranks")])
def test_what_is_not_predicted_at_scale_says_why(name, ranks, leaves, words):
    with pytest.raises(ValueError, match=words):
        to_predict(name, ranks, leaves, ((0, 1, 2), tuple(range(3, ranks))) if name == "hierarchical" else None)


def flat(step):
    """What of a round takes time: transfers, and how often each rank adds each chunk."""
    sums = Counter()
    for rank, start, stop, times in zip(step.adder, step.add_start, step.add_stop, step.times):
        for chunk in range(start, stop):
            sums[int(rank), chunk] += int(times)
    sent = zip(*(column.tolist() for column in (step.source, step.destination, step.start, step.stop)))
    return sorted(sent), sums


@pytest.mark.parametrize("name", ["ring", "direct", "halving-doubling", "hierarchical", "double-tree"])
def test_columns_are_the_generators_rounds(name):
    for ranks in (*range(1, 10), 16, 17, 33):
        for each in (1, 2, 3, 4) if name == "hierarchical" else (None,):
            if name == "halving-doubling" and ranks & (ranks - 1):
                continue
            machines = None if each is None else in_blocks(ranks, each)
            options = {} if each is None else {"machines": machines}
            schedule = _schedule(name, one_node_each(ranks), "allreduce", options)
            table = columns(name, ranks, machines)
            assert (table.ranks, table.chunks) == (ranks, schedule.chunks)
            wanted = [flat(round_columns(step)) for step in schedule.rounds]
            assert [flat(step) for step in table.rounds] == wanted


def test_a_wrong_column_form_is_seen():
    right = [flat(step) for step in columns("ring", 4).rounds]
    wrong = [step._replace(start=step.start[::-1]) for step in columns("ring", 4).rounds]
    assert [flat(step) for step in wrong] != right


def test_refusals():
    with pytest.raises(ValueError, match="ring is for 3 ranks, the network has 4"):
        simulate(make_schedule("ring", 3, 3), network(4), 10, 4)
    with pytest.raises(ValueError, match="0 segments"):
        simulate(make_schedule("ring", 3, 3), network(3), 10, 4, 0)
    with pytest.raises(ValueError, match="no allreduce algorithm 'nonsense'"):
        columns("nonsense", 3)
    for wrong in ({"bandwidth_out": 0}, {"latency": -1.0}, {"bandwidth_in": (1.0, 2.0)}, {"reduction": math.nan},
                  {"memory_bandwidth": math.inf}, {"burst": -1.0}):
        with pytest.raises(ValueError, match=f"network: {next(iter(wrong))}"):
            network(3, **wrong)
    with pytest.raises(ValueError, match="machines must hold each of the ranks"):
        Network(((0, 1), (1,)), 0, 1, 1)


def test_network_round_trip_and_what_is_refused(tmp_path):
    path, given = tmp_path / "network.json", network(5, 2, bandwidth_in=(1e6, 2e6, 0.1), reduction=math.inf)
    path.write_text(json.dumps(given.to_dict(), allow_nan=False))
    assert load_network(path, in_blocks(5, 2)) == given
    with pytest.raises(ValueError, match=r"network.json: measured on 5 ranks on 3 machines .* now there are 6 ranks"):
        load_network(path, in_blocks(6, 2))
    for change in ({"format": 4}, {"format": 2}, {"links": [[1.0]]}, {"latency": None}, {"odd": 1},
                   {"bandwidth_in": ["x"]}, {"machines": [[0, 0]]}):
        path.write_text(json.dumps({**given.to_dict(), **change}))
        with pytest.raises(ValueError, match="network.json: (network: |could not convert)"):
            load_network(path, in_blocks(5, 2))
    for text in ("[]", "nonsense", "{}"):
        path.write_text(text)
        with pytest.raises(ValueError, match="network.json"):
            load_network(path, in_blocks(5, 2))


def test_links_of_a_graph_each_have_their_rate():
    pair = GraphNetwork(named_links("path-2"), 1e6, latency=0.5, reduction=math.inf)
    assert simulate(make_schedule("trees:path-2", 2, 2), pair, 1000, 4).seconds == 2 * (0.5 + 4000 / 1e6)
    cards = (2e6, 2e6, 1e6, 2e6)
    flat = Network(in_blocks(4, 1), 1e-3, cards, cards)
    star = GraphNetwork(named_links("star-2,2,1,2"), 1e6, latency=1e-3, reduction=flat.reduction)
    for name in ("ring", "direct", "canonical-trees:star-2,2,1,2"):
        one, other = (simulate(make_schedule(name, 4, 4), net, 10**6, 4, 7) for net in (flat, star))
        assert one.seconds == pytest.approx(other.seconds) and (one.bytes_out == other.bytes_out).all()


@pytest.mark.parametrize("name, ends, way", [
    ("levels-2x2x4x1", (0, 3), (0, 4, 6, 5, 3)), ("levels-2x2x4x1", (0, 1), (0, 4, 1)),
    ("a100-2", (0, 2), (0, 16, 2)), ("a100-2", (0, 10), (0, 18, 10)), ("dgx-1v", (0, 4), (0, 4)),
    ("dgx-1v", (0, 5), None),
])
def test_a_transfer_takes_the_shortest_then_the_widest_way_over_switches(name, ends, way):
    assert ways_of(named_links(name)).get(ends) == way


BURST = 131072


@pytest.mark.parametrize("n", [4096, 100_000, 131_000, 140_000, 1 << 20])
def test_a_rested_card_lets_its_burst_through_at_once(n):
    bucket, one = {"burst": BURST, "memory_bandwidth": 1e15}, moves(2, (0, 1))
    expected = ALPHA + max(0, n - BURST) * BETA
    assert simulate(one, network(2, **bucket), n // 4, 4).seconds == pytest.approx(expected, rel=1e-6, abs=1e-8)
    # five ranks one after the other into one card: it is the card's bucket, not each sender's
    together = simulate(moves(6, *((r, 0) for r in range(1, 6))), network(6, **bucket), n // 4, 4).seconds
    assert together == pytest.approx(ALPHA + max(0, 5 * (n // 4 * 4) - BURST) * BETA, rel=1e-6, abs=1e-8)


@pytest.mark.parametrize("p", [2, 3, 5, 8])
def test_a_card_saves_up_while_it_is_idle(p):
    """A card that never rests long lets n bytes pass in (n - burst) / rate from the first one on, pauses and all."""
    pauses = network(p, burst=BURST, memory_bandwidth=1e15, reduction=math.inf)
    n = 4 * p * 100_000  # the bucket is empty after the first round
    for name in ("ring", "direct"):
        found = simulate(make_schedule(name, p, p), pauses, n // 4, 4)
        first = max(0, (1 if name == "ring" else p - 1) * n // p - BURST) * BETA
        assert first > 0
        assert found.seconds == pytest.approx(ALPHA + (2 * (p - 1) * n // p - BURST) * BETA, rel=1e-6)
    slow = network(2, burst=100, latency=1e3)  # a pause of minutes fills the bucket, and no further
    twice = Schedule("twice", 1, one_node_each(2), (Round((Transfer(0, 1, 0, 1, 0, 1),)),) * 2)
    assert simulate(twice, slow, 250, 4).seconds == pytest.approx(2 * (1e3 + 900 * BETA), rel=1e-9)


@pytest.mark.parametrize("name", ["direct", "ring", "rabenseifner", "hierarchical", "recursive-doubling"])
@pytest.mark.thorough("direct", "hierarchical")
def test_long_vectors_take_as_long_as_if_simulated_whole(name):
    """A pipeline fills and empties once: a part in a hundred, and Rabenseifner's rounds meet in several ways."""
    net, elements, segments = network(12, each=3), 1 << 22, 4 * SIMULATED
    schedule = make_schedule(name, 12, 12, machines=net.machines if name == "hierarchical" else None)
    whole = simulate(schedule, net, elements, 4, segments).seconds
    assert seconds_of(schedule, net, elements, 4, segments) == pytest.approx(whole, rel=0.05)
    assert seconds_of(schedule, net, elements, 4, SIMULATED) == simulate(schedule, net, elements, 4, SIMULATED).seconds
