"""What a rank of a mesh sends, against a count by sets of who has and who needs which number; the crossing batch."""

from fractions import Fraction

import pytest

from models.layer import Layer
from refimpl.collectives.simulation.network import Network
from refimpl.plan.layers.auto import choose_mesh, meshes
from refimpl.plan.layers.crossing import crossing_batch, crossing_of_splitbrain
from refimpl.plan.layers.sent import bytes_sent, cut_by, parameters, resident
from refimpl.transport.machines import in_blocks

CONV = Layer("conv", 3, 4, 3, (6, 6), (6, 6))
HIDDEN = [Layer("a", 36, 8, blocks=4), Layer("b", 8, 16, blocks=4)]
NETS = {"output cut": [CONV, *HIDDEN, Layer("output", 16, 12, blocks=4)],
        "output whole": [CONV, *HIDDEN, Layer("output", 16, 5)]}


def between_members(layers, model, examples) -> int:
    """Return the bytes that a member of a group sends forwards and backwards, counted number by number."""
    cut, members, sent = cut_by(layers, model), range(model), 0
    for round_ in range(model):
        of = {row: row // (examples // model) for row in range(examples)}  # a round's rows -> whose examples
        held = [{(row, column) for row in of if of[row] == m for column in range(cut[0].inputs)} for m in members]
        for layer, after in zip(cut, [*cut[1:], None]):
            everything = set().union(*held)
            sent += (model - 1) * len(held[0])  # each other member needs all that member 0 has
            sent += sum(len(held[m] & everything) for m in members if m)  # of its partial sums, the others' parts
            width = layer.outputs // model
            held = [{(row, m * width + column) for row in of for column in range(width)} for m in members]
            if after is None:
                columns = range(layer.outputs)
                own = [{(row, column) for row in of if of[row] == m for column in columns} for m in members]
                sent += sum(len(held[0] & own[m]) for m in members if m)  # all columns of their rows
                sent += sum(len(own[0] & held[m]) for m in members if m)  # the gradients of their columns
    return 4 * sent


@pytest.mark.parametrize("net", NETS)
@pytest.mark.parametrize("data, model", [(3, 1), (1, 2), (3, 2), (1, 4), (2, 4)])
def test_the_bytes_of_a_mesh_are_those_of_a_count(net, data, model):
    layers, examples = NETS[net], 8
    found, cut = bytes_sent(layers, data, model, examples), cut_by(layers, model)
    assert [layer.name for layer in cut] == ([] if model == 1 else ["a", "b"] + ["output"] * (net == "output cut"))
    counted = 0 if model == 1 else between_members(layers, model, examples)
    assert found.into + found.out_of == counted
    if model > 1:  # the count tells a formula without the last transition from it
        assert found.into != counted
    shard, ranks = sum(parameters(layer) for layer in cut) // model, data * model
    assert found.shards == 2 * Fraction(data - 1, data) * 4 * shard
    whole = sum(map(parameters, layers)) - model * shard
    assert found.replicas == 2 * Fraction(ranks - 1, ranks) * 4 * whole and resident(layers, model) == whole + shard
    assert found.total == sum(found)


@pytest.mark.parametrize("net", NETS)
@pytest.mark.parametrize("model", [2, 4])
@pytest.mark.parametrize("data", [1, 2, 16])
def test_at_the_crossing_batch_both_send_as_much(net, model, data):
    layers = NETS[net]
    crossing = crossing_batch(layers, model)

    def more(examples):
        """By how much the mesh sends more than data-parallel."""
        return bytes_sent(layers, data, model, examples).total - bytes_sent(layers, data * model, 1, examples).total

    assert more(crossing) == 0 and more(crossing - 1) < 0 < more(crossing + 1)
    assert more(crossing_of_splitbrain(layers, model)) < 0  # it counts the last width K times too often


def test_splitbrains_condition_is_met_where_the_last_width_vanishes():
    assert crossing_batch([CONV], 2) is None is crossing_of_splitbrain([CONV], 2)
    ratios = []
    for last in (64, 16, 4):
        layers = [CONV, Layer("a", 10**6, 64, blocks=4), Layer("b", 64, last, blocks=4)]
        ratios.append(crossing_of_splitbrain(layers, 4) / crossing_batch(layers, 4))
    assert ratios == sorted(ratios) and 1 - ratios[-1] < 1e-5 and ratios[-1] < 1


def network(ranks, each=1, rate=1e6, latency=0.0):
    return Network(in_blocks(ranks, each), latency, rate, rate, latency_within=0.0, memory_bandwidth=1e12)


def test_with_a_machine_a_rank_the_card_carries_what_the_rank_sends():
    for net in NETS.values():
        for mesh in meshes(net, network(8), 64, 64):
            assert mesh.card == pytest.approx(float(mesh.sent.total)) and mesh.data * mesh.model == 8
            assert mesh.seconds == pytest.approx(mesh.card / 1e6)
            assert mesh.sent == bytes_sent(net, mesh.data, mesh.model, 8)


def test_groups_within_a_machine_send_nothing_through_its_card():
    within = {mesh.model: mesh for mesh in meshes(NETS["output cut"], network(8, 4), 64, 64)}
    assert within[4].card == within[1].card  # two machines sum as many bytes, cut or not
    (one, *_), (alone, *_) = meshes(NETS["output cut"], network(4, 4), 64, 64), meshes([CONV], network(1), 64, 64)
    assert one.card == 4 * float(one.sent.total) and alone.card == 0 == alone.seconds


def test_the_mesh_with_the_least_seconds_that_the_microbatches_fit():
    layers, ranks = NETS["output cut"], 8
    few, many = meshes(layers, network(ranks), 8, 4), meshes(layers, network(ranks), 8, 32)
    assert [mesh.name for mesh in few] == ["8x1", "4x2", "2x4"] and choose_mesh(few).name == "8x1"
    assert few[1].refusal == "needs --microbatches 8, a multiple of N = 8"
    assert meshes(layers, network(ranks), 8, 20)[1].refusal.startswith("needs --microbatches 16 or 24,")
    fastest = min(many, key=lambda mesh: mesh.seconds)
    assert choose_mesh(many) is fastest and fastest.model == 4
    assert choose_mesh(meshes(layers, network(ranks, latency=1.0), 8, 32)).model == 1  # rounds cost latency
    assert choose_mesh(meshes(layers, network(ranks), 8 * 2000, 32)).model == 1  # a large batch
    assert meshes(layers, network(ranks), 8, 32, computation=1.5)[0].seconds == many[0].seconds + 1.5
    assert [mesh.model for mesh in meshes([CONV], network(ranks), 8, 32)] == [1]
