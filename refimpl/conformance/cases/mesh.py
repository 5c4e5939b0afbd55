"""Fully connected layers cut over groups of ranks: one step of a small network on each mesh of the ranks.

Every number is an integer divided by a power of two, and none has more digits than float32. So sums are the same in
every order, except where a norm is clipped.
"""

import numpy as np

from refimpl.conformance.case import Case, CaseVariable, Connected, MeshTask
from refimpl.conformance.cases.numbers import integers, small

TWO = (("below", 3, 5, False, False), ("fc1", 5, 8, True, False), ("fc2", 8, 8, True, False),
       ("out", 8, 3, False, True))
TO_THE_END = (("below", 3, 5, False, False), ("fc1", 5, 8, True, False), ("out", 8, 4, True, True))
"""Networks, each layer as ``Connected`` has it: below stands for the convolutions."""
NORMALISER, RATE = 16, 0.25
KEPT = 2.0
"""What dropout multiplies with what it keeps: a half."""


def cases(ranks: int):
    """Yield the cases for a number of ranks: on each mesh whose groups have 1, 2 or 4 members."""
    for members in (k for k in (1, 2, 4) if ranks % k == 0):
        mesh = ranks // members, members
        for name, about, more in (
                ("two", "two layers are cut, one below and the last are whole", {}),
                ("to-the-end", "the last layer is cut, too", {"layers": TO_THE_END}),
                ("dropout", "dropout by global column", {"dropout": True}),
                ("odd", "microbatches of 3, 2, 1 and no examples, two of them in a round", {"sizes": (3, 0, 2, 1),
                                                                                         "each": 2, "dropout": True}),
                ("clip", "a clipped norm: each element counts once", {"clip": 2.0})):
            yield mesh_case(f"mesh/{mesh[0]}x{mesh[1]}-{name}", about, mesh, **more)


def mesh_case(name, about, mesh, *, layers=TWO, sizes=(2,), each=1, dropout=False, clip=None) -> Case:
    """Return a case. sizes: of the microbatches, in turn.  each: how many of them a rank has in a round."""
    groups, members = mesh
    ranks, count = groups * members, members * each
    shapes = {f"{layer}.{what}": (outputs, inputs)[:2 if what == "weight" else 1]
              for layer, inputs, outputs, *_ in layers for what in ("weight", "bias")}
    step = tuple({what: [small(f"{name}{what}{v}", (sizes[v % len(sizes)], width), 2)
                         for v in range(rank * count, (rank + 1) * count)]
                  for what, width in (("inputs", layers[0][1]), ("gradients", layers[-1][2]))} for rank in range(ranks))
    cut = [name for layer, *_, is_cut, _ in layers if is_cut for name in shapes if name.startswith(f"{layer}.")]
    holders = {part_name(name, k): list(range(k, ranks, members)) for name in cut for k in range(members)}
    settings = {"mesh": list(mesh), "layers": [list(layer) for layer in layers], "dropout": dropout, "clip": clip,
                "holders": holders}
    return Case(name, "mesh", about, ranks, tuple(CaseVariable(n, shape) for n, shape in shapes.items()), (step,),
                clip is None, settings, ("model-parallel",) * (members > 1) + ("clip",) * (clip is not None))


def part_name(name, member) -> str:
    """Return what a member's part of a variable is called in an answer. Local."""
    return f"{name} of member {member}"


def layers_of(case: Case) -> tuple[Connected, ...]:
    """Return the layers of a case. Local."""
    return tuple(Connected(*layer) for layer in case.settings["layers"])


def weights_of(case: Case) -> dict[str, np.ndarray]:
    """Return name -> initial value. Local."""
    return {v.name: small(f"start{v.name}", v.shape, 1 if len(v.shape) == 2 else 2) for v in case.variables}


def dropout_of(case: Case) -> dict[str, list[np.ndarray]]:
    """Return layer -> what the outputs of each microbatch of all ranks are multiplied with: (n, outputs). Local."""
    if not case.settings["dropout"]:
        return {}
    sizes = [len(x) for parts in case.steps[0] for x in parts["inputs"]]
    return {layer.name: [(KEPT * integers(f"{case.name}{layer.name}{v}", (n, layer.outputs), 0, 2)).astype("float32")
                         for v, n in enumerate(sizes)] for layer in layers_of(case) if layer.cut and not layer.last}


def task_of(case: Case, rank: int, given) -> MeshTask:
    """Return what a rank gets. given: its inputs and gradients, arrays of its own. Local."""
    microbatches = list(zip(given["inputs"], given["gradients"]))
    return MeshTask(tuple(case.settings["mesh"]), layers_of(case), weights_of(case), microbatches,
                    rank * len(microbatches), dropout_of(case), NORMALISER, RATE, case.settings["clip"])


def named(case: Case, rank: int, answer: dict) -> dict:
    """Return a rank's answer, its parts of what is cut by the names that tell whose they are. Local."""
    cut = {name for layer in layers_of(case) if layer.cut for name in (layer.weight, layer.bias)}
    member = rank % case.settings["mesh"][1]
    return {part_name(name, member) if name in cut else name: part for name, part in answer.items()}
