"""The canonical algorithm that is predicted fastest, and the reason given."""

import pytest

from refimpl.collectives import make_schedule, prove
from refimpl.collectives.algorithms.halves import one_node_each
from refimpl.collectives.auto import choose_algorithm
from refimpl.collectives.links import named_links, pack_canonical
from refimpl.collectives.simulation.network import Network
from refimpl.collectives.simulation.places import ways_of
from refimpl.transport.machines import in_blocks


def choose(ranks, each, elements, leaves=None):
    machines = in_blocks(ranks, each)
    return choose_algorithm(leaves or ranks, elements, 4, machines, Network(machines, 50e-6, 25e6, 25e6))


@pytest.mark.thorough
def test_short_vectors_take_few_rounds_and_long_ones_few_bytes():
    assert choose(16, 1, 1).predicted["recursive-doubling"] < choose(16, 1, 1).predicted["ring"]
    many = choose(8, 1, 1 << 22)
    assert many.algorithm in ("direct", "halving-doubling", "binary-blocks", "rabenseifner")
    assert many.predicted[many.algorithm] < many.predicted["recursive-doubling"]
    assert many.predicted["ring"] < many.predicted["recursive-doubling"]


@pytest.mark.parametrize("ranks, each, leaves", [(5, 1, 9), (7, 3, 16), (4, 1, 3)])
def test_the_choice_is_canonical_and_can_be_made(ranks, each, leaves):
    for elements in (0, 1, 1000, 1 << 20):
        choice = choose(ranks, each, elements, leaves)
        machines = in_blocks(ranks, each) if choice.algorithm == "hierarchical" else None
        proof = prove(make_schedule(choice.algorithm, ranks, leaves, machines=machines))
        assert proof.canonical and choice.canonical[choice.algorithm]
        allowed = [seconds for name, seconds in choice.predicted.items() if choice.canonical[name]]
        assert choice.predicted[choice.algorithm] == min(allowed)
        assert "direct" in choice.predicted and ("hierarchical" in choice.predicted) == (each > 1)


def test_few_rounds_are_taken_if_sums_overlap_with_computation():
    machines = in_blocks(8, 1)
    network = Network(machines, 50e-6, 25e6, 25e6)
    found = {overlaps: choose_algorithm(8, 1 << 18, 4, machines, network, overlaps=overlaps)
             for overlaps in (False, True)}
    fastest, early = found[False].algorithm, found[True].algorithm
    rounds = {name: len(make_schedule(name, 8, 8).rounds) for name in (fastest, early)}
    assert (early, rounds[early]) == ("direct", 2) and rounds[fastest] > 2
    assert found[True].predicted == found[False].predicted
    assert "which has the fewest rounds of those predicted within 5% of the fastest" in found[True].reason


def test_what_is_not_canonical_is_timed_and_not_taken():
    for ranks in (3, 6):
        choice = choose(ranks, 1, 1 << 18)
        assert not choice.canonical["ring"] and choice.canonical[choice.algorithm] and choice.predicted["ring"] > 0
    assert "ring" in choice.reason and "another order: not taken" in choice.reason


def test_trees_are_taken_where_cards_differ_and_keep_the_bits():
    rates = (25e6, 24e6, 12.6e6, 25.4e6)
    choice = choose_algorithm(8, 1 << 22, 4, in_blocks(4, 1), Network(in_blocks(4, 1), 50e-6, rates, rates))
    assert choice.algorithm == "canonical-trees:star-2,2,1,2" and choice.canonical[choice.algorithm]
    assert choice.predicted[choice.algorithm] < choice.predicted["direct"] / 1.4
    assert "100.8 to 203.2 Mbit/s" in choice.reason and "links" not in choice.reason
    links = tuple(tuple(min(a, b) * (i != j) for j, b in enumerate(rates)) for i, a in enumerate(rates))
    measured = Network(in_blocks(4, 1), 50e-6, rates, rates, links=links)
    choice = choose_algorithm(8, 1 << 22, 4, in_blocks(4, 1), measured)
    assert choice.reason.endswith("""rate of each link in Mbit/s, with a row for each machine that sends:
         -     192   100.8     200
       192       -   100.8     192
     100.8   100.8       -   100.8
       200     192   100.8       -""")
    pairs = in_blocks(8, 2)
    choice = choose_algorithm(8, 1 << 22, 4, pairs, Network(pairs, 50e-6, rates, rates))
    assert choice.algorithm == "hierarchical-trees:star-2,2,1,2"
    assert choice.predicted[choice.algorithm] < choice.predicted["hierarchical"] / 1.3
    triples = in_blocks(24, 3)  # each has three leaves, which are two nodes
    slow = (12.5e6, *(25e6,) * 7)
    choice = choose_algorithm(24, 1 << 10, 4, triples, Network(triples, 50e-6, slow, slow))
    assert "cards differ, but no trees were packed for them" in choice.reason
    assert "trees were" not in choose(4, 1, 1 << 10).reason and not any("trees:" in name for name in choice.predicted)
    alike = (25e6, 21e6, 22e6, 25e6)  # a measurement may err so much
    choice = choose_algorithm(8, 1 << 22, 4, in_blocks(4, 1), Network(in_blocks(4, 1), 50e-6, alike, alike))
    assert not any("trees:" in name for name in choice.predicted)


def wired(name, slower=None, joined=12.5e6, other=4e9):
    """Return what is measured of machines with cables, and fast cards for the words of those without one."""
    links = named_links(name)
    rates = [[0.0 if a == b else float(links.rates.get((a, b), 0)) * joined / (1 + ((a, b) == slower)) or other
              for b in range(links.ranks)] for a in range(links.ranks)]
    cards = tuple(map(max, rates))
    return Network(in_blocks(links.ranks, 1), 50e-6, cards, cards, links=tuple(map(tuple, rates)))


@pytest.mark.parametrize("name, others", [("dgx-1v:0,1,4", 3), ("mesh-2x3", 0), ("star-2,2,1", 9)])
def test_of_a_network_only_its_links_are_used(name, others):
    links = named_links(name)
    machines, ways = in_blocks(links.ranks, 1), ways_of(links)
    choice = choose_algorithm(links.ranks, 1 << 22, 4, machines, wired(name) if others < 9 else Network(
        machines, 50e-6, 25e6, 25e6, links=((0, 25e6, 12.5e6), (25e6, 0, 12.5e6), (12.5e6, 12.5e6, 0))), links=name)
    assert choice.algorithm == f"canonical-trees:{name}" and choice.canonical[choice.algorithm]
    assert "carries" not in choice.reason and (others == 9 or len(choice.predicted) == 1 + others)
    for algorithm in choice.predicted:
        rounds = make_schedule(algorithm, links.ranks, links.ranks).rounds
        assert {(t.source, t.destination) for step in rounds for t in step.transfers} <= {*ways}
    best = (1 << 24) / (12.5e6 * float(pack_canonical(links, one_node_each(links.ranks)).best))
    assert best < choice.predicted[choice.algorithm] < 1.25 * best


def test_a_link_that_is_slower_than_its_network_says_is_named():
    choice = choose_algorithm(3, 100, 4, in_blocks(3, 1), wired("dgx-1v:0,1,4", slower=(0, 2)), links="dgx-1v:0,1,4")
    assert choice.reason.splitlines()[-1] == (
        "link 0 to 2 carries 0.50 of what dgx-1v:0,1,4 says: correct the network, or look at the cable")
    assert "         -     100     100\n       100       - 3.2e+04\n       200 3.2e+04       -" in choice.reason


@pytest.mark.parametrize("machines, network, why", [
    (in_blocks(3, 1), wired("ring-3"), "network's 4 ranks .* 3 ranks on 3 machines. Leave :ring-4 out"),
    (in_blocks(4, 2), Network(in_blocks(4, 2), 0, 1, 1, links=((0, 1), (1, 0))), "4 ranks on 2 machines"),
    (in_blocks(4, 4), None, "4 ranks on 1 machines"),
    (in_blocks(4, 1), Network(in_blocks(4, 1), 0, 1, 1), "measured link by link")])
def test_a_network_of_others_is_refused(machines, network, why):
    with pytest.raises(ValueError, match=why):
        choose_algorithm(4, 10, 4, machines, network, links="ring-4")


def test_hierarchical_is_taken_where_machines_have_several_ranks():
    choice = choose(8, 4, 1 << 20)
    assert choice.algorithm == "hierarchical" and "hierarchical" not in choose(4, 1, 1 << 20).predicted


def test_one_machine_reads_in_place_without_a_network():
    for ranks in (1, 4):
        choice = choose_algorithm(8, 100, 4, in_blocks(ranks, ranks), None)
        assert choice.algorithm == "direct" and "shared memory" in choice.reason * ranks


def test_the_reason_can_be_read():
    lines = choose(4, 1, 1 << 20).reason.splitlines()
    assert "4 MiB over 4 ranks on 4 machines (latency 50 us, 200 Mbit/s)" in lines[0]
    assert lines[1].startswith("  * ") or "not canonical" in lines[1]
    assert sum(line.startswith("  * ") for line in lines) == 1


def test_the_network_must_be_of_these_machines():
    for network in (None, Network(in_blocks(4, 2), 0, 1, 1)):
        with pytest.raises(ValueError, match="measured on these machines"):
            choose_algorithm(4, 10, 4, in_blocks(4, 1), network)
