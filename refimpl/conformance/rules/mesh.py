"""What a step of layers cut over groups should give: ``refimpl.plain.mesh`` on all ranks in one process, in float64."""

import numpy as np

from refimpl.conformance.case import Case, MeshTask
from refimpl.conformance.cases.mesh import NORMALISER, RATE, dropout_of, layers_of, part_name, weights_of
from refimpl.conformance.rules.aggregate import Expected
from refimpl.conformance.worlds import LeftAlone, run_ranks
from refimpl.plain.mesh import Mesh


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


def stepped(case: Case, kind: type[Mesh] = Mesh) -> list[dict[str, dict[int, Expected]]] | None:
    """Return name -> rank -> what it should have after the step. Local.

    kind: the plain mesh, or one with a method replaced; None: that one ends in an error.
    """
    def wide(arrays):
        return [a.astype(np.float64) for a in arrays]

    def work(world):
        task = task_of(case, world.rank, {what: wide(a) for what, a in case.steps[0][world.rank].items()})
        task.start.update(zip(task.start, wide(task.start.values())))
        return named(case, world.rank, kind(world, task).run())

    try:
        found = run_ranks(case.ranks, work)
    except (ValueError, LeftAlone):  # parts of unlike shapes meet, on some ranks
        return None
    start, eps = weights_of(case), float(np.finfo(np.float32).eps)
    result: dict[str, dict] = {}
    for rank, answer in enumerate(found):
        for name, value in answer.items():
            largest = np.abs(start.get(name.partition(" of ")[0], np.zeros(()))).max(initial=0.0)
            error = np.zeros_like(value) if case.exact else 48 * eps * (largest + np.abs(value))
            result.setdefault(name, {})[rank] = Expected(np.asarray(value), error,
                                                         "float64" if name == "loss" else "float32")
    return [result]
