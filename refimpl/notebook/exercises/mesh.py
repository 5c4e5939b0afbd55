"""Checks of lesson 10: the gradient of a cut layer's input, the batch at which cutting pays, the best groups."""

from math import isclose

import numpy as np

from models.layer import Layer
from refimpl.notebook.exercises import answered, exercise, right, wrong
from refimpl.plan.layers.crossing import crossing_batch, crossing_of_splitbrain
from refimpl.plan.layers.volumes import divisors, exact_best_groups, ring_volume

NETWORKS = ((512, 4096, 4096), (25088, 4096, 4096, 1000), (96, 64), (8, 16, 4))
"""Widths: inputs of the first cut layer, then outputs of each."""
RANKS, BATCHES, WIDTHS = (1, 16, 64, 48), (64, 256, 2153, 8192), ((4096, 4096), (25088, 4096), (512, 64))


@exercise
def check_input_gradient(input_gradient):
    """Check a function input_gradient(grads, weights): the gradient of the input of a layer cut over K members."""
    random = np.random.default_rng(10)
    for members in (2, 4, 1):
        weights = [random.integers(-9, 9, (3, 5)) for _ in range(members)]
        grads = [random.integers(-9, 9, (2, 3)) for _ in range(members)]
        given, parts = np.asarray(answered(input_gradient(grads, weights))), [g @ w for g, w in zip(grads, weights)]
        if np.array_equal(given, sum(parts)):
            continue
        if given.shape == parts[0].shape and any(np.array_equal(given, part) for part in parts):
            return wrong("that is one member's part: every input has a share in every output")
        if np.array_equal(given, np.concatenate(parts, axis=1)) or given.shape == (members, 2, 5):
            return wrong("each member's part already has all columns: the parts are not concatenated, but added up")
        return wrong(f"{members} members: gradients {grads[0].shape} and weights {weights[0].shape} of each should "
                     f"give {parts[0].shape}, the sum of their products; you have {given.shape}")
    return right("each member has a partial sum: an allgather forward is a sum backward.")


@exercise
def check_crossing(crossing):
    """Check crossing(parameters, inputs, outputs, members): B at which cut and whole layers send the same."""
    for widths in NETWORKS:
        for members in (2, 4, 8):
            layers = [Layer(f"fc{i}", *pair, blocks=8) for i, pair in enumerate(zip(widths, widths[1:]))]
            given = float(answered(crossing(sum(layer.weights + layer.outputs for layer in layers),
                                            sum(layer.inputs for layer in layers), widths[-1], members)))
            if isclose(given, crossing_batch(layers, members), rel_tol=1e-9):
                continue
            said = f"{' -> '.join(map(str, widths))}, cut over {members}: you say {given:.4g}"
            if isclose(given, crossing_of_splitbrain(layers, members), rel_tol=1e-9):
                return wrong(f"{said}; that is SplitBrain's, which counts the last outputs K times too often")
            if isclose(given * 2, crossing_batch(layers, members), rel_tol=1e-9):
                return wrong(f"{said}, half of the right value: the 2 stands on both sides")
            return wrong(f"{said}; set what is saved, 2 (K - 1)/K n, equal to the activations sent for B examples")
    return right("the result does not depend on the number of ranks, which cancels.")


@exercise
def check_groups(groups):
    """Check a function groups(ranks, batch, inputs, outputs): the G with which a connected layer sends least."""
    for ranks in RANKS:
        for batch in BATCHES:
            for inputs, outputs in WIDTHS:
                layer, given = Layer("fc", inputs, outputs, blocks=64), answered(groups(ranks, batch, inputs, outputs))
                said = f"N = {ranks}, MB = {batch}, {inputs} -> {outputs}: you say {given!r}"
                if given not in divisors(ranks):
                    return wrong(f"{said}; G divides N: {', '.join(map(str, divisors(ranks)))}")
                best = exact_best_groups(layer, ranks, batch)
                sent = [ring_volume(layer, ranks, batch, g).total for g in (int(given), best)]
                if sent[0] > sent[1]:
                    return wrong(f"{said}, which sends {float(sent[0] / sent[1]):.4g} times the least: try both "
                                 "divisors next to the root")
    return right("one line of code tries them all; √(N MB / ofm) says near which divisors to look.")
