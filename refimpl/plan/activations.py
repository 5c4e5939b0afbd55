"""The exact bytes of what the members of a group send each other in a step around cut layers (docs/design.md, I2).

B_i examples on member i, B in the group, s bytes an element; inputs D of the first cut layer, outputs F_l of each:

    rows       from i to every other, B_i D s forwards, and to each j B_j D s of partial sums back
    columns    after each cut layer but the last, B (F_l / K) s to every other, each way
    out        after the last, B_j (F / K) s to j forwards, and B_i (F / K) s back

In all 2 (K - 1) B s (D + Σ F_l) / K + 2 (K - 1) / K B_i s F where members have as many examples (SplitBrain, arXiv
2112.15317). Beside that, 8 bytes a microbatch: how many examples each has.
"""

import numpy as np

from refimpl.gradients import leaves_of
from refimpl.plan.mesh import cut_of, layers_of

COUNT = 8  # bytes of a number of examples


def activations_between(plan, variables, examples) -> dict:
    """Return {(phase, variable, kind): (N, N) int64 bytes rank to rank} of a step's activations. Local.

    examples: how many of them each microbatch has.
    """
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
    """Return how many examples of a microbatch count, which ``Sharded.features`` returns the rows of. Local.

    batch: a ``models.Batch``, or None.
    """
    if batch is None:
        return 0
    return len(batch.inputs) if batch.weights is None else int(np.count_nonzero(np.asarray(batch.weights) > 0))


def _size(variable) -> int:
    return np.dtype(variable.dtype).itemsize
