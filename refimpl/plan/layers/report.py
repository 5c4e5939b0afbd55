"""A plan's results for the layers of a model, as plain data for JSON."""

from dataclasses import asdict, dataclass
from fractions import Fraction

import numpy as np

from refimpl.plan.choose import Chosen
from refimpl.plan.layers.auto import Predicted, choose_mesh, meshes
from refimpl.plan.layers.choose import LayerChoice, choose_layers
from refimpl.plan.layers.crossing import crossing_batch


@dataclass(frozen=True)
class Layered:
    """The mode of each layer, the possible meshes, the chosen mesh, and K -> the crossing batch (``crossing``)."""

    layers: list[LayerChoice]
    meshes: list[Predicted]
    chosen: Predicted
    crossing: dict[int, Fraction]


def layered(chosen: Chosen, computation: float = 0.0) -> Layered | None:
    """Return a plan's results for its model's layers, or None without layers. computation: seconds of a step. Local."""
    if not chosen.layers:
        return None
    size = np.dtype(chosen.predictor.variables[0].dtype).itemsize
    found = meshes(chosen.layers, chosen.network, chosen.batch, chosen.plan.microbatches, size, computation)
    crossing = {mesh.model: crossing_batch(chosen.layers, mesh.model) for mesh in found if mesh.model > 1}
    layers = choose_layers(chosen.layers, chosen.plan.ranks, chosen.batch, size)
    return Layered(layers, found, choose_mesh(found), crossing)


def as_data(found: Layered) -> dict:
    """Return all of it as plain data for JSON; fractions become floats. Local."""
    return {"layers": [_plain({**asdict(each), "layer": each.layer.name}) for each in found.layers],
            "meshes": [_plain({**asdict(each), "sent": each.sent.total, "name": each.name, **each.sent._asdict()})
                       for each in found.meshes],
            "mesh": found.chosen.name, "crossing_batch": _plain({str(k): b for k, b in found.crossing.items()})}


def _plain(values: dict) -> dict:
    return {name: float(value) if isinstance(value, Fraction) else value for name, value in values.items()}
