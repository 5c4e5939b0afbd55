"""Trees in the links that are there: known rates as fractions, packings checked, optima proved by brute force."""

import itertools
import json
from fractions import Fraction

import numpy as np
import pytest

from refimpl.cli import main
from refimpl.collectives.links import Links, NAMED, grow, named_links, pack, pack_trees, read_links, switches
from refimpl.collectives.links.allreduce import halves
from refimpl.collectives.links.named import both_ways
from refimpl.collectives.links.optimum import fewer_trees, slowest_cut, whole_trees
from refimpl.collectives.links.programme import Programme
from refimpl.collectives.links.schedule import tree_schedule
from refimpl.collectives.prove import prove
from refimpl.experiments.trees.study import allocations

ALLGATHER = {  # network: (rate, trees from each root, the rate of one tree from each)
    "dgx-1v": ("48/7", 6, "16/3"), "dgx-1p": ("32/7", 4, "4"), "ring-4": ("8/3", 2, "2"), "ring-8": ("16/7", 2, "2"),
    "ring-16": ("32/15", 2, "2"), "cube-3": ("24/7", 3, "8/3"), "cube-4": ("64/15", 4, "4"),
    "torus-4x4": ("64/15", 4, "4"), "mesh-3x3": ("9/4", 1, "9/4"), "path-4": ("4/3", 1, "4/3"),
    "a100-1": ("2400/7", 1, "2400/7"), "a100-2": ("1040/3", 13, "2400/7"), "a100-4": ("800/3", 1, "800/3"),
    "mi250-1": ("2400/7", 3, "800/3"), "mi250-2": ("5312/15", 83, "320"), "star-2,2,2,1": ("4/3", 1, "4/3"),
}
ALLREDUCE = {
    "dgx-1v": "24/7", "dgx-1p": "16/7", "ring-4": "4/3", "ring-16": "16/15", "cube-3": "12/7", "mesh-3x3": "3/2",
    "path-4": "1", "star-2,2,2,1": "1", "star-2,2,2,2": "4/3", "star-2,2,2,2,2,2,2,1": "1", "levels-2x2x4x1": "1",
    "star-2.5,1.5": "3/2",
}


@pytest.mark.parametrize("name", ALLGATHER)
def test_known_rates_of_an_allgather(name):
    links, (rate, k, of_one) = named_links(name), ALLGATHER[name]
    inverse, cut = slowest_cut(links)
    assert links.ranks / inverse == Fraction(rate)
    assert sum(node < links.ranks for node in cut) / links.out_of(set(cut)) == inverse  # the proof, recomputed
    assert whole_trees(links, inverse)[0] == k
    assert links.ranks / fewer_trees(links, 1)[0] == Fraction(of_one)


@pytest.mark.parametrize("name", ["dgx-1v", "mesh-3x3", "ring-5", "star-2,2,2,1", "levels-2x2x4x1", "a100-1"])
@pytest.mark.parametrize("kind", ["allgather", "reduce-scatter"])
def test_an_allgather_is_packed_at_its_optimum(name, kind):
    packing = pack_trees(named_links(name), kind)
    assert packing.rate == packing.best and {tree.inward for tree in packing.trees} == {kind == "reduce-scatter"}
    assert max(packing.load().values()) == 1
    assert {tree.root for tree in packing.trees} == set(range(packing.links.ranks))


@pytest.mark.parametrize("name", ALLREDUCE)
def test_known_rates_of_an_allreduce(name):
    packing = pack_trees(named_links(name))
    assert packing.rate == packing.best == Fraction(ALLREDUCE[name])


def test_fewer_trees_are_packed_at_what_they_can_carry():
    packing = pack_trees(named_links("dgx-1v"), "allgather", 1)
    assert packing.rate == Fraction(16, 3) < packing.best == Fraction(48, 7) and len(packing.trees) == 8
    assert pack_trees(named_links("dgx-1v"), "allgather", 99).rate == packing.best
    for trees, rate in ((1, 2), (2, 2), (4, 3), (8, Fraction(16, 5)), (24, Fraction(24, 7))):
        packing = pack_trees(named_links("dgx-1v"), "allreduce", trees)
        assert packing.rate == rate <= packing.best and len(packing.trees) <= 2 * trees


@pytest.mark.parametrize("name, trees, rate", [
    ("star-2,2,2,2", 1, "1"), ("star-2,2,2,2", 2, "4/3"), ("star-3,2,2,1", 9, "1"), ("a100-1", 1, "150"),
    ("levels-2x2x4x1", 1, "1")])
def test_fewer_trees_through_switches(name, trees, rate):
    packing = pack_trees(named_links(name), "allreduce", trees)
    assert packing.rate == Fraction(rate) <= packing.best == pack_trees(named_links(name)).rate
    assert len(packing.trees) <= 2 * trees
    assert prove(tree_schedule(packing))


def test_fewer_trees_over_links_that_carry_less_back():
    links = drawn(3, 5, symmetric=False)
    assert [pack_trees(links, "allreduce", trees).rate for trees in (1, 2, None)] == [3, 4, Fraction(19, 4)]


@pytest.mark.parametrize("name, count, below, most", [("dgx-1v", 46, 43, "5/3"), ("dgx-1p", 14, 9, "8/5")])
def test_every_allocation_has_its_optimum_which_trees_of_equal_roots_miss(name, count, below, most):
    """What a successor of Blink does, an allreduce over the trees of its allgather, is below on most of them."""
    found = allocations(name)
    gains = [halves(links).rate * 2 * slowest_cut(links)[0] / links.ranks for links in found]
    assert len(found) == count and sum(gain > 1 for gain in gains) == below and max(gains) == Fraction(most)
    for links in found[::4]:
        packing = pack_trees(links)
        assert packing.rate == packing.best


def drawn(seed, ranks, switch=False, symmetric=True):
    """Return a random connected network; a switch has in and out of equal sums."""
    draw = np.random.default_rng(seed)
    pairs = [(i, int(draw.integers(i))) for i in range(1, ranks)]
    pairs += [tuple(map(int, draw.choice(ranks, 2, replace=False))) for _ in range(ranks)]
    rates = both_ways((a, b, int(draw.integers(1, 4))) for a, b in pairs)
    if not symmetric:
        rates = {link: rate + int(draw.integers(0, 3)) for link, rate in rates.items()}
    if switch:
        rates |= both_ways((int(rank), ranks, int(draw.integers(1, 4)))
                           for rank in draw.choice(ranks, 3, replace=False))
    return Links(f"drawn {seed}", ranks, int(switch), rates)


@pytest.mark.parametrize("seed", range(6))
def test_the_optimum_of_an_allgather_is_that_of_all_cuts(seed):
    links = drawn(seed, 5, switch=seed % 2 == 1, symmetric=seed < 3)
    nodes, worst = range(links.ranks + links.switches), Fraction(0)
    for size in range(1, len(nodes)):
        for cut in map(set, itertools.combinations(nodes, size)):
            behind = sum(node < links.ranks for node in cut)
            if 0 < behind < links.ranks:
                worst = max(worst, behind / links.out_of(cut))
    assert slowest_cut(links)[0] == worst
    packing = pack_trees(links, "allgather")
    assert packing.rate == packing.best == links.ranks / worst


def partitions(ranks):
    """Yield each partition as a tuple: the part of each rank."""
    for parts in itertools.product(*(range(rank + 1) for rank in range(ranks))):
        if all(part <= max(parts[:i], default=-1) + 1 for i, part in enumerate(parts)) and max(parts):
            yield parts


@pytest.mark.parametrize("seed", range(6))
def test_the_optimum_of_an_allreduce_is_that_of_all_partitions(seed):
    links = drawn(seed, 6)
    best = min(Fraction(sum(rate for (a, b), rate in links.rates.items() if a < b and parts[a] != parts[b]))
               / max(parts) for parts in partitions(6))
    packing = pack_trees(links)
    assert packing.rate == packing.best == best


@pytest.mark.parametrize("seed", range(4))
def test_divided_links_are_packed_at_the_rate_that_prices_prove(seed):
    packing = pack_trees(drawn(seed, 5, switch=seed > 1, symmetric=seed % 2 == 0 and seed > 1))
    assert packing.rate == packing.best


def test_links_of_equal_rates_give_both_programmes_the_same_answer(monkeypatch):
    links, expected = named_links("mesh-3x2"), pack_trees(named_links("mesh-3x2")).rate
    monkeypatch.setattr(Links, "symmetric", False)
    assert pack_trees(links).rate == expected


ADD = Programme.add
MISTAKES = {
    "the room of other trees is forgotten": (grow, "_room", lambda ranks, left, x, y, others: 10**6),
    "a switch's way is forgotten": (switches, "_matched", lambda left, right: [
        ((a, (one[0],)), (b, (0, other[-1]))) for (a, one), (b, other) in zip(left, right)]),
    "a switch gives more than it has room for": (
        switches, "_most", lambda ranks, switches, capacities, roots, u, w, t: min(capacities[u, w], capacities[w, t])),
    "a link's other direction is dropped": (Programme, "add", lambda self, lines, terms, value=0: ADD(
        self, lines, dict([*terms.items()][:1]) if lines is self.most and value else terms, value)),
    "all roots are given the same": (pack, "halves", lambda links, trees: _equal_roots(links)),
}


def _equal_roots(links):
    found = halves(links)
    found.roots = dict.fromkeys(range(links.ranks), sum(found.roots.values()) // links.ranks)
    return found


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_in_the_packing_is_found(monkeypatch, mistake):
    module, name, wrong = MISTAKES[mistake]
    monkeypatch.setattr(module, name, wrong)
    with pytest.raises(ValueError, match="cannot grow|is loaded|links that do not exist|the trees carry|leaves rank"):
        for network, kind in (("dgx-1v", "allgather"), ("a100-1", "allgather"), ("star-3,2,2,1", "allreduce"),
                              ("dgx-1v", "allreduce"), ("levels-2x3x4x1", "allgather")):
            packing = pack_trees(named_links(network), kind)
            if packing.rate < packing.best:
                raise ValueError(f"the trees carry {packing.rate} of {packing.best}")


def test_values_that_prove_nothing_are_not_believed(monkeypatch):
    monkeypatch.setattr("refimpl.collectives.links.programme._fraction", lambda number: Fraction(round(number)))
    programme = Programme(["x"])
    programme.add(programme.most, {"x": 2, "y": 1}, 1)
    programme.add(programme.equal, {"y": 1}, 0)
    with pytest.raises(ArithmeticError, match="prices do not prove"):
        programme.solve()


@pytest.mark.parametrize("found, says", [
    ({"ranks": 4, "links": [["both", 0, 1, 1], ["both", 2, 3, 1]]}, "no link leads from nodes 0, 1 to ranks 2, 3"),
    ({"ranks": 2, "links": [["both", 0, 1, 0]]}, "link 0 to 1 has rate 0: leave it out, or give it one above 0"),
    ({"ranks": 2, "links": [["both", 0, 1, -2.5]]}, "has rate -5/2"),
    ({"ranks": 2, "switches": 1, "links": [["both", 0, 2, 2], [1, 2, 1], [2, 1, 2]]}, "3 comes into switch 2 and 4 go"),
    ({"ranks": 2, "links": [["both", 0, 2, 1]]}, "link 0 to 2: give two different nodes, 0 to 1"),
    ({"ranks": 1, "links": []}, "1 rank: a network has 2 ranks or more"),
    ({"links": []}, "is no network: it should read"), ({"ranks": 2, "links": [[0, 1]]}, "is no network"),
])
def test_a_network_that_is_none_is_refused(tmp_path, capsys, found, says):
    (tmp_path / "net.json").write_text(json.dumps(found))
    assert main(["collectives", "trees", str(tmp_path / "net.json")]) == 1
    assert says in capsys.readouterr().err


@pytest.mark.parametrize("arguments, says", [
    (["dgx"], "there is no network dgx; there are dgx-1v (8 V100, in NVLinks)"), (["star-2,x"], "there is no network"),
    (["dgx-1v", "--gpus", "0,5,6"], "no link leads from nodes 0 to ranks 1, 2"),
    (["dgx-1v", "--gpus", "0,0"], "choose some of them, each once"), (["dgx-1v", "--gpus", "8,1"], "has ranks 0 to 7"),
    (["ring-4", "--canonical", "--kind", "allgather"], "--canonical packs for an allreduce, and takes no --kind"),
    (["no.json"], "No such file"),
])
def test_what_cannot_be_packed_is_refused(capsys, arguments, says):
    assert main(["collectives", "trees", *arguments]) == 1
    assert says in capsys.readouterr().err


def test_the_command_says_rate_proof_trees_and_load(tmp_path, capsys):
    assert main(["collectives", "trees", "dgx-1v", "--gpus", "0,1,4,5", "--output", str(tmp_path / "a.png")]) == 0
    text = capsys.readouterr().out
    assert text.startswith("allreduce of 4 ranks on dgx-1v:0,1,4,5: rate 2, 4 trees\n"
                           "  proof  no schedule is faster than 2: ")
    assert (tmp_path / "a.png").stat().st_size > 10_000
    assert main(["collectives", "trees", "dgx-1v", "--kind", "allgather", "--trees", "1", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["rate"] == "16/3" and len(found["trees"]) == 8
    assert max(Fraction(part) for _, _, part in found["load"]) == 1
    assert read_links(_file(tmp_path)).rates[0, 2] == Fraction("2.1")
    for name, order in (("ring-4", "costs nothing here"), ("cube-3", "costs 6.7%: trees in another order have")):
        assert main(["collectives", "trees", name, "--canonical"]) == 0
        assert f"order  that of the microbatch tree {order}" in capsys.readouterr().out
    assert main(["collectives", "trees", "path-2", "--canonical", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["ways"][0]["rate"] == "1"


def _file(folder):
    (folder / "net.json").write_text('{"ranks": 2, "switches": 1, "links": [["both", 0, 2, 2.1], ["both", 1, 2, 3]]}')
    return folder / "net.json"


def test_every_name_makes_a_network():
    for name in NAMED:
        links = named_links(name.replace("...", "3").replace("MxExIxB", "2x2x4x1").replace("RxC", "2x3")
                            .replace("A,B", "1,2").replace("-M", "-1").replace("-N", "-3").replace("-D", "-2"))
        assert links.ranks > 1
