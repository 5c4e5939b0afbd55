"""``--mesh auto``: the mesh on which a step should be shortest, by exact volumes on the network as it was measured."""

import json

import numpy as np

from models.layer import layers_of
from refimpl.collectives.simulation.calibrate import network_of
from refimpl.plan.layers.auto import choose_mesh, meshes
from refimpl.plan.mesh import with_mesh
from refimpl.plan.plan import Plan
from refimpl.training.planning.allreduce_choice import write_network

AUTO = "auto"


def on_mesh(plan: Plan, reason: str | None, model, data, options, comm, network_file=None):
    """Return the plan on the mesh that the options ask for, and the reason with why. Collective.

    network_file: see ``plan_of``.  Raises CollectiveError for a mesh that cannot be.
    """
    text = options.mesh
    if text == AUTO:
        network = network_of(comm, network_file, write_network)
        text, why = json.loads(comm.once(lambda: json.dumps(choose(model, data, network))))
        reason = "\n".join(filter(None, (reason, why)))
    return comm.together(lambda: with_mesh(plan, model.variables, text), (ValueError,)), reason


def choose(model, data, network) -> tuple[str | None, str]:
    """Return (the mesh, why), None: no layer is cut. Local.

    data: its first step has as many examples as any.
    """
    layers = layers_of(model)
    if not layers:
        return None, f"mesh auto: {type(model).__name__} names no layers, so none is cut"
    size = np.dtype(model.variables[0].dtype).itemsize
    found = meshes(layers, network, data.examples(0), data.microbatches, size)
    best = choose_mesh(found)
    others = ", ".join(f"{mesh.name} {mesh.seconds * 1e3:.4g} ms" + (f" ({mesh.refusal})" if mesh.refusal else "")
                       for mesh in found)
    return best.name, f"mesh auto: {best.name}; predicted exchanges of a step: {others}"
