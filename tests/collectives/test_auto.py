"""The canonical algorithm that is predicted fastest, and the reason given."""

import pytest

from refimpl.collectives import make_schedule, prove
from refimpl.collectives.auto import choose_algorithm
from refimpl.collectives.simulation.network import Network
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


def test_what_is_not_canonical_is_timed_and_not_taken():
    for ranks in (3, 6):
        choice = choose(ranks, 1, 1 << 18)
        assert not choice.canonical["ring"] and choice.canonical[choice.algorithm] and choice.predicted["ring"] > 0
    assert "ring" in choice.reason and "not canonical: not taken" in choice.reason


def test_trees_are_taken_where_cards_differ_and_keep_the_bits():
    rates = (25e6, 24e6, 12.6e6, 25.4e6)
    choice = choose_algorithm(8, 1 << 22, 4, in_blocks(4, 1), Network(in_blocks(4, 1), 50e-6, rates, rates))
    assert choice.algorithm == "canonical-trees:star-2,2,1,2" and choice.canonical[choice.algorithm]
    assert choice.predicted[choice.algorithm] < choice.predicted["direct"] / 1.4
    assert "100.8 to 203.2 Mbit/s" in choice.reason and "links" not in choice.reason
    links = tuple(tuple(min(a, b) * (i != j) for j, b in enumerate(rates)) for i, a in enumerate(rates))
    measured = Network(in_blocks(4, 1), 50e-6, rates, rates, links=links)
    choice = choose_algorithm(8, 1 << 22, 4, in_blocks(4, 1), measured)
    assert choice.reason.endswith("""links, Mbit/s, a row for each machine that sends:
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
