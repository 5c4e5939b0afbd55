"""The balance equations and the exact volumes: closed forms, and a count of a ring's sets."""

from fractions import Fraction
from math import sqrt

import pytest

from models.layer import Layer
from refimpl.plan.layers.balance import best_groups, flop, intensity
from refimpl.plan.layers.choose import choose_layer, choose_layers
from refimpl.plan.layers.volumes import divisors, exact_best_groups, ring_volume

CONV = Layer("conv", 64, 128, 3, (112, 112), (112, 112))
STRIDED = Layer("strided", 3, 96, 11, (231, 231), (56, 56))
CONNECTED = Layer("connected", 24, 12, blocks=4)


def test_the_balance_equations():
    assert flop(CONV, 4) == 3 * 2 * 4 * 64 * 128 * 3 * 3 * 112**2
    assert flop(STRIDED, 1) == 6 * 3 * 96 * 121 * 56**2 and flop(CONNECTED, 5) == 6 * 5 * 24 * 12
    for layer, out in ((CONV, 112), (STRIDED, 56), (CONNECTED, 1)):
        assert intensity(layer, 4) == Fraction(3, 2) * 4 * out**2  # whatever its feature maps
        assert intensity(layer, 4, size=2) == 3 * 4 * out**2


@pytest.mark.parametrize("ranks, batch, outputs, star", [(64, 256, 4096, 2.0), (64, 256, 1024, 4.0), (4, 64, 64, 2.0)])
def test_the_best_number_of_groups(ranks, batch, outputs, star):
    layer = Layer("connected", 999, outputs)
    assert best_groups(layer, ranks, batch) == star == sqrt(ranks * batch / outputs)
    assert exact_best_groups(layer, ranks, batch) == star


def test_the_best_number_of_groups_of_a_convolution():
    assert best_groups(CONV, 64, 256) == sqrt(2 * 64 * 256 * 112**2 / (128 * 9 * 2))
    assert exact_best_groups(CONV, 64, 256) == 64


def approximate_volume(layer, ranks, batch, groups):
    """Return V(G) of docs/paper.md at o = 0."""
    return 2 * 4 * layer.activations_in * batch / Fraction(groups) + 2 * 4 * layer.weights * Fraction(groups) / ranks


@pytest.mark.parametrize("layer", [CONV, STRIDED, CONNECTED], ids=lambda layer: layer.name)
def test_the_approximation_is_too_large_by_as_much_for_every_number_of_groups(layer):
    ranks, batch = 12, 48
    more = {groups: approximate_volume(layer, ranks, batch, groups) - ring_volume(layer, ranks, batch, groups).total
            for groups in divisors(ranks)}
    assert set(more.values()) == {Fraction(2 * 4 * (layer.activations_in * batch + layer.weights), ranks)}
    assert ring_volume(layer, ranks, batch, 1).weights == 0 == ring_volume(layer, ranks, batch, 12).activations
    star = best_groups(layer, ranks, batch)
    near = [approximate_volume(layer, ranks, batch, star * by) for by in (0.99, 1.0, 1.01)]
    assert min(near) == near[1]  # the approximation's lowest point


def ring(members: int, items: int) -> tuple[int, int]:
    """Return (items that a member sends in an allgather, and in a reduce-scatter), counted round by round."""
    chunks = [frozenset(range(c * items // members, (c + 1) * items // members)) for c in range(members)]
    has, passing, gathered = [{*chunk} for chunk in chunks], chunks, 0
    for _ in range(members - 1):
        gathered += len(passing[0])
        passing = [passing[m - 1] for m in range(members)]
        has = [mine | new for mine, new in zip(has, passing)]
    assert all(mine == set(range(items)) for mine in has)
    summed = [{c: {m} for c in range(members)} for m in range(members)]  # chunk -> whose contributions
    scattered = 0
    for step in range(members - 1):
        moved = [((m - step) % members, summed[m][(m - step) % members]) for m in range(members)]
        scattered += len(chunks[moved[0][0]])
        for m, (chunk, of) in enumerate(moved):
            summed[(m + 1) % members][chunk] = summed[(m + 1) % members][chunk] | of
    assert all(summed[m][(m + 1) % members] == set(range(members)) for m in range(members))
    return gathered, scattered


def counted(layer, ranks, batch, groups) -> tuple[int, int]:
    """Return (bytes of activations, of weights) that a node sends, counted."""
    members = ranks // groups
    return (4 * sum(ring(members, layer.activations_in * batch // groups)),
            4 * sum(ring(groups, layer.weights // members)))


@pytest.mark.parametrize("ranks", [1, 4, 6, 12])
def test_the_exact_volumes_are_what_a_ring_sends(ranks):
    for groups in divisors(ranks):
        assert ring_volume(CONNECTED, ranks, 24, groups) == counted(CONNECTED, ranks, 24, groups)
        if ranks > 1:  # the count tells another formula from it
            assert approximate_volume(CONNECTED, ranks, 24, groups) != sum(counted(CONNECTED, ranks, 24, groups))


def test_a_number_of_groups_that_does_not_divide_is_refused():
    with pytest.raises(ValueError, match="connected: 12 ranks cannot be 5 groups of one size: .*12: 1, 2, 3, 4, 6, 12"):
        ring_volume(CONNECTED, 12, 24, 5)


def test_each_layer_gets_a_mode_and_a_reason():
    small = Layer("pixels", 512, 512, 3, (14, 14), (14, 14))
    wide, uncut = Layer("wide", 4096, 4096, blocks=64), Layer("uncut", 4096, 1000)
    narrow, few = Layer("narrow", 4096, 4096, blocks=2), Layer("few", 4096, 8, blocks=8)
    found = {c.layer.name: c for c in choose_layers([CONV, small, wide, uncut, narrow, few], 64, 256)}
    assert {name: (c.mode, c.groups) for name, c in found.items()} == {
        "conv": ("data", 64), "pixels": ("data", 64), "wide": ("hybrid", 2), "uncut": ("data", 64),
        "narrow": ("hybrid", 32), "few": ("data", 64)}
    assert found["pixels"].exact == 32 and "convolutions are not cut here" in found["pixels"].reason
    assert "1 column block cannot" in found["uncut"].reason and "(G = 2), it would send" in found["narrow"].reason
    assert found["wide"].hybrid == ring_volume(wide, 64, 256, 2).total < found["wide"].cut < found["wide"].whole
    assert "cut over 2 ranks, it would send" in found["few"].reason
    assert choose_layer(wide, 64, 4).mode == "model" and choose_layer(wide, 1, 256).reason == "one rank sends nothing"
    assert choose_layer(wide, 3, 256).hybrid is None
