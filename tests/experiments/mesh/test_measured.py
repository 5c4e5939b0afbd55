"""The pure parts of what is measured: formulas, fits, and tables that say so where something is not as it should be."""

import time

import numpy as np
import pytest

from models.perceptron import Perceptron
from models.vgg import Vgg
from refimpl.experiments.bench.timing import paired
from refimpl.experiments.mesh import bytes as ledger
from refimpl.experiments.mesh import crossing, memory, peer, ranks, weak
from refimpl.experiments.mesh.nets import FEATURES, ReplayedVgg, make_net, measure_seconds
from refimpl.plan.layers.crossing import crossing_batch
from refimpl.plan.layers.sent import bytes_sent
from refimpl.transport import Communicator

LAYERS = make_net(crossing.NET).layers
TINY = {"image_shape": (8, 8, 3), "classes": 10, "stages": (1,), "width": 4, "connected": (16, 8), "blocks": 4}


def swept(slower=1.0):
    """Seconds that are the formula's bytes; of 2x2 ``slower`` times those."""
    return {(mesh, batch): float(bytes_sent(LAYERS, 4 // k, k, batch).total) * (slower if k == 2 else 1)
            for mesh, k in crossing.MESHES.items() for batch in crossing.BATCHES}


def test_two_meshes_cross_where_the_formula_says():
    for mesh, k in (("2x2", 2), ("1x4", 4)):
        assert crossing.formula_crossing(LAYERS, "4x1", mesh) == crossing_batch(LAYERS, k)
    seconds = swept()
    for pair in (("4x1", "2x2"), ("4x1", "1x4"), ("2x2", "1x4")):
        formula = float(crossing.formula_crossing(LAYERS, *pair))
        assert crossing.measured_crossing(LAYERS, seconds, *pair) == pytest.approx(formula)
        assert min(crossing.BATCHES) < formula < max(crossing.BATCHES)
        few = {cell: took for cell, took in seconds.items() if cell[1] in crossing.QUICK}
        few = {(mesh, batch): took for (mesh, batch), took in few.items() if mesh != "1x4" or batch < crossing.SLOW}
        assert crossing.measured_crossing(LAYERS, few, *pair) == pytest.approx(formula)
    assert [crossing.quickest(seconds, batch) for batch in (8, 40, 80)] == ["1x4", "2x2", "4x1"]


def test_a_mesh_that_is_slower_than_its_bytes_is_told():
    right, wrong = (crossing.finding(LAYERS, swept(slower), swept()) for slower in (1.0, 1.3))
    assert "is the formula's at every batch" in right.sentences[1] and "all within 0.0%" in right.sentences[1]
    assert "is not the formula's at B = " in wrong.sentences[1] and "all within 0.0%" not in wrong.sentences[1]


def test_the_memory_of_the_three_is_splitbrains():
    layers = make_net(memory.NETS["VGG-16, 224 x 224, 10 classes"]).layers
    assert memory.saved(memory.formula(layers, 4), memory.formula(layers, 1), memory.THREE) == "66.8%"
    assert all(memory.formula(layers, 1, microbatches=v)["arenas"] == 0 for v in (1, 2))


@pytest.mark.parametrize("microbatches", [1, 2, 16])
def test_what_is_allocated_is_the_formula(microbatches):
    net = Vgg(**TINY)
    found = ranks.held(ranks.opened(net, Communicator.alone(), microbatches, "adam"))
    assert found == {**memory.formula(net.layers, 1, microbatches, "adam"), "scratch": 0}
    assert ranks.resident() > sum(found.values())


def test_memory_that_is_not_the_formula_is_told():
    name = "VGG-16, 32 x 32, 10 classes"
    layers = make_net(memory.NETS[name]).layers
    rank = {what: int(count) for what, count in memory.formula(layers, 4).items()} | {"scratch": 5, "grown": 10**9}
    right = memory.finding({name: layers}, {(name, 4): [rank] * 4})
    assert "on every rank" in right.sentences[0] and right.tables[0].rows[0][6] == "42.1%"
    wrong = memory.finding({name: layers}, {(name, 4): [rank, {**rank, "state": rank["state"] + 4}]})
    assert wrong.sentences[0].startswith(f"NOT the formula: {name}, K = 4, state: ")


@pytest.mark.parametrize("different, told", [(0, "All are equal"), (3, "3 ARE NOT EQUAL")])
def test_bytes_that_differ_are_told(different, told):
    record = {"net": "VGG", "mesh": "2x2", "sent": {"rows": 5, "control": 2}, "keys": 7, "different": different,
              "ranks": 4, "steps": 2}
    finding = ledger.finding([record])
    assert told in finding.sentences[0] and finding.tables[0].rows[0][-2:] == ["56", str(different)]
    assert finding.tables[0].rows[0][7] == "5"  # without control


def test_a_replay_has_the_shapes_and_sleeps_a_parts_share(monkeypatch):
    seconds, slept = measure_seconds(TINY, 4), []
    assert [len(some) for some in seconds.values()] == [2, 3, 3, 3] and min(map(min, seconds.values())) >= 0
    monkeypatch.setattr(time, "sleep", slept.append)
    net = ReplayedVgg({name: [1.0] * len(some) for name, some in seconds.items()}, 2.0, **TINY)
    batch = ranks.make_data({"kind": "replay", **TINY}, 2, 4).microbatch(0, 1)
    dense = {v.name: v.initial_value(0) for v in net.variables}
    _, gradients = net.loss_and_gradients(dense, {}, batch)
    assert {name: value.shape for name, value in gradients.items()} == {v.name: v.shape for v in net.variables}
    assert slept == [2.0] * (2 + 3 * 3)
    layer = net.connected[0]
    y, _ = layer.forward(np.ones((4, layer.inputs), "float32"), *(part[:4] for part in layer.of(dense)), 0, 0)
    assert y.shape == (4, 4) and slept[-1] == 0.5
    assert net.seconds[FEATURES] == (2.0, 2.0)


def test_weak_scaling_takes_the_mesh_that_sends_least():
    layers = make_net({"kind": "vgg", **weak.NET}).layers
    sent = {k: bytes_sent(layers, 8 // k, k, weak.SIZE * weak.EACH).total for k in (1, 2, 4, 8)}
    assert weak.best_mesh(layers, 8) == f"{8 // min(sent, key=sent.get)}x{min(sent, key=sent.get)}"
    assert weak.best_mesh(layers, 8, examples=10**5) == "8x1"
    took = {(1, "1x1", "1"): 1.0, (8, "8x1", "1"): 4.0, (8, "1x8", "1"): 2.0}
    finding = weak.finding(layers, 0.5, took, {1: "1x1", 8: "1x8"})
    assert "8 machines are 4.00 times one as 1x8, and 2.00 data-parallel" in finding.sentences[1]


def test_the_peer_may_be_missing():
    turns = {"refimpl": [1.0, 2.0, 4.0], "torch": [1.5, 2.0, 8.0]}
    rows = paired("2x2", "", turns, ["refimpl"])
    record = {"mesh": "2x2", "examples": 8, "phases": {"compute": 0.5}, "rows": rows,
              "card": {"refimpl": [2e6, 2e6], "torch": [4e6, 4e6]}}
    row, = peer.finding({("4 machines", "2x2"): record}).tables[0].rows
    assert row == ["4 machines", "2x2", "4", "4", "1.50", "1.00 to 2.00", "1.2", "2.0", "4.0"]
    alone = {**record, "rows": rows[:1], "card": {}}
    row, = peer.finding({("1 machine", "2x2"): alone}).tables[0].rows
    assert row[3:6] == ["", "", ""]


def test_more_examples_than_there_are_is_refused():
    with pytest.raises(ValueError, match="are 8000000 examples, at most"):
        ranks.make_data(crossing.NET, 8, 10**6)
    assert isinstance(make_net(crossing.NET), Perceptron)
