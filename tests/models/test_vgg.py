"""Vgg: its sizes, and what it refuses."""

import pytest
from image_networks import tiny

from models.recipe import build, recipe_of
from models.vgg import PRESETS, Vgg
from refimpl.cli import main


@pytest.mark.parametrize("preset, weights, layers", [("vgg16", 138_357_544, 16), ("vgg-a", 132_863_336, 11)])
def test_the_true_networks_have_the_authors_weights(preset, weights, layers):
    model = Vgg((224, 224, 3), 1000, **PRESETS[preset])
    assert sum(v.size for v in model.variables) == weights and len(model.layers) == layers
    assert all(layer.blocks == 8 for layer in model.connected)
    assert sum(layer.weights + layer.outputs for layer in model.layers) == weights


def test_layers_are_as_a_plan_sees_them():
    model = Vgg((224, 224, 3), 1000, **PRESETS["vgg16"])
    shapes = {v.name: v.shape for v in model.variables}
    for layer, following in zip(model.layers, model.layers[1:]):
        expected = (layer.outputs, layer.inputs) if layer.connected else (3, 3, layer.inputs, layer.outputs)
        assert shapes[f"{layer.name}.weight"] == expected and shapes[f"{layer.name}.bias"] == (layer.outputs,)
        pooled = layer.outputs * layer.size_out[0] * layer.size_out[1] // following.activations_in
        assert pooled == (4 if layer.name.partition(".")[0] != following.name.partition(".")[0] and
                          not layer.connected else 1)
    assert sum(layer.products for layer in model.layers) == 15_470_264_320  # the well-known 15.5 billion
    assert [layer.connected for layer in model.layers] == [False] * 13 + [True] * 3


def test_weights_alone_decay():
    assert all(v.decays == v.name.endswith("weight") for v in tiny(Vgg).variables)


def test_the_output_layer_has_blocks_where_they_divide_the_classes():
    assert [layer.blocks for layer in tiny(Vgg, classes=8).connected] == [4, 4, 4]
    assert [layer.blocks for layer in tiny(Vgg, classes=10).connected] == [4, 4, 1]


@pytest.mark.parametrize("sizes, message", [
    ({"stages": 0}, r"stages must be .*not \(0,\)"), ({"connected": "abc"}, "connected must be"),
    ({"keep": 0}, "keep=0: a probability above 0"), ({"keep": "x"}, "keep='x'"),
    ({"blocks": 3}, "512 outputs of connected0 in 3 blocks: give a power of two that divides 512: 1, 2, 4"),
    ({"connected": 10**4, "blocks": 32}, "10000 outputs of connected0 in 32 blocks"),
    ({"stages": (1, 1, 1, 1)}, "after 3 stages images are 1 x 1, too small to pool; give at most 3 stages, or images "
     "of 16 x 16"), ({"stages": 10**12}, "that is .* layers; give at most 1000")])
def test_refuses_sizes_that_make_no_network(sizes, message):
    with pytest.raises(ValueError, match=message):
        Vgg(**{"image_shape": (8, 8, 1), "classes": 10, **sizes})


def test_the_true_presets_are_planned_without_their_data(capsys):
    recipe, _ = recipe_of("vgg", {"preset": "vgg16"})
    assert recipe.data == "random-images:224x224x3x1000"
    assert recipe_of("vgg", {"preset": "vgg16", "data": "digits"})[0].data == "digits"
    assert recipe_of("vgg", {"preset": "small"})[0].data == "digits"
    assert main(["plan", "vgg", "--preset", "vgg-a-cifar", "--ranks", "4", "--rate", "1gbit", "--json"]) == 0
    assert '"stage4.conv1.weight"' in capsys.readouterr().out
    model, data, heldout = build(recipe_of("vgg", {"preset": "tiny", "data": "random-images:9x8x2x3"})[0], 0)
    assert (model.image_shape, model.classes) == ((9, 8, 2), 3)
    assert len(data.inputs) == 10_000 and len(heldout.inputs) == 16
    assert main(["plan", "vgg", "--data", "random-images:9x8"]) != 0
    assert "random-images:9x8: give HEIGHTxWIDTHxCHANNELSxCLASSES" in capsys.readouterr().err
