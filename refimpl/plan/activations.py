"""The exact bytes that the members of a group send each other for layers that are cut (docs/design.md, I2).

A group has K members. Member i has B_i examples, the group B; an element has s bytes. The first cut layer has D inputs,
cut layer l has F_l outputs, the last one F. In a step member i sends

    rows       B_i D s to each other member forwards, and B_j D s of partial sums to each member j backwards
    columns    B (F_l / K) s to each other member in each direction, after each cut layer but the last
    out        B_j (F / K) s to each member j forwards, and B_i (F / K) s to each backwards, after the last

If all members have equally many examples, the sum is 2 (K - 1) B s (D + Σ F_l) / K + 2 (K - 1) / K B_i s F (SplitBrain,
arXiv 2112.15317). Members also tell each other how many examples each microbatch has: 8 bytes for each.
"""

import numpy as np

from refimpl.gradients import leaves_of
from refimpl.plan.mesh import cut_of, layers_of

COUNT = 8  # bytes of a number of examples


def activations_between(plan, variables, examples) -> dict:
    """Return {(phase, variable, kind): (N, N) int64 bytes} of a step. examples: in each microbatch. Local."""
    mesh, cut = plan.on_mesh, cut_of(plan, variables)
    if not cut:
        return {}
    layers, of_rank = layers_of(cut), np.array(
        [sum(examples[v] for v in leaves_of(r, plan.ranks, plan.microbatches)) for r in range(plan.ranks)], np.int64)
    ranks = np.arange(plan.ranks)
    near = (ranks[:, None] // mesh.model == ranks // mesh.model) & (ranks[:, None] != ranks)
    source, target = near * of_rank[:, None], near * of_rank
    group = near * of_rank.reshape(mesh.data, mesh.model).sum(axis=1).repeat(mesh.model)[:, None]
    first, last = layers[0], layers[-1]
    found = {("rows", first.name, "activations"): (source + target) * (first.shape[1] * _size(first)),
             ("out", last.name, "activations"): (source + target) * (last.shape[0] // mesh.model * _size(last)),
             ("rows", "", "control"): near * (COUNT * plan.microbatches // plan.ranks)}
    for layer in layers[:-1]:
        found["columns", layer.name, "activations"] = 2 * group * (layer.shape[0] // mesh.model * _size(layer))
    return found


def examples_in(batch) -> int:
    """Return the number of examples with a weight above 0 in a ``models.Batch``; 0 for None. Local."""
    if batch is None:
        return 0
    return len(batch.inputs) if batch.weights is None else int(np.count_nonzero(np.asarray(batch.weights) > 0))


def _size(variable) -> int:
    return np.dtype(variable.dtype).itemsize
