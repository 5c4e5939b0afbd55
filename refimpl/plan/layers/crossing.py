"""The batch at which cutting the fully connected layers over K ranks sends as much as keeping them whole on each.

Whole, their P parameters cost 2 (N − 1)/N P; cut, 2 (G − 1)/G P/K = 2 (N − K)/(N K) P. What is saved, 2 (K − 1)/K P,
does not depend on N. With D inputs of each shard layer and F outputs of the last one it pays while

    K B (ΣD + F/K) < P        B examples of a rank in a step; ΣD = what enters the first + widths between shard layers

SplitBrain's condition (docs/paper.md, Data and model parallelism) is K B (D + ΣF) < P, with every width: it counts
the last one K times too often. Both agree as that width vanishes beside the others, and at K = 1.
"""

from fractions import Fraction

from refimpl.plan.layers.sent import cut_by, parameters, widths_out


def crossing_batch(layers, model: int) -> Fraction | None:
    """Return the B at which both send as much; below it cutting sends less. None: K cuts no layer. Local."""
    layers = list(layers)
    cut = cut_by(layers, model)
    if not cut:
        return None
    return sum(map(parameters, cut)) / (model * sum(layer.inputs for layer in cut)
                                        + Fraction(sum(widths_out(layers, model))))


def crossing_of_splitbrain(layers, model: int) -> Fraction | None:
    """Return the B of SplitBrain's condition, P / (K (D + ΣF)); None: K cuts no layer. Local."""
    cut = cut_by(list(layers), model)
    if not cut:
        return None
    return Fraction(sum(map(parameters, cut)), model * (cut[0].inputs + sum(layer.outputs for layer in cut)))
