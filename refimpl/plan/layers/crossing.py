"""The number of examples with which cutting the fully connected layers over K ranks sends as much as not cutting them.

A rank sends 2 (N − 1)/N P of the P parameters if they are not cut, and 2 (G − 1)/G P/K = 2 (N − K)/(N K) P if they are.
The difference, 2 (K − 1)/K P, does not depend on N. Let each cut layer have D inputs, and the last one F outputs. Then
cutting pays if

    K B (ΣD + F/K) < P        B: examples of a rank in a step

SplitBrain's condition (docs/paper.md, Data and model parallelism) is K B (D + ΣF) < P, with the outputs F of all cut
layers: it counts those of the last layer K times. Both agree if K = 1, or nearly if the last layer is narrow.
"""

from fractions import Fraction

from refimpl.plan.layers.sent import cut_by, parameters, widths_out


def crossing_batch(layers, model: int) -> Fraction | None:
    """Return the B with which both send equally much. With a smaller B cutting sends less. None: K cuts no layer."""
    layers = list(layers)
    cut = cut_by(layers, model)
    if not cut:
        return None
    return sum(map(parameters, cut)) / (model * sum(layer.inputs for layer in cut)
                                        + Fraction(sum(widths_out(layers, model))))


def crossing_of_splitbrain(layers, model: int) -> Fraction | None:
    """Return the B of SplitBrain's condition, P / (K (D + ΣF)). None: K cuts no layer. Local."""
    cut = cut_by(list(layers), model)
    if not cut:
        return None
    return Fraction(sum(map(parameters, cut)), model * (cut[0].inputs + sum(layer.outputs for layer in cut)))
