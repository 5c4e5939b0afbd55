"""Allocates what each rank of a 1 x K mesh holds of a network, and counts it: array by array, and as the kernel does.

Parameters are opened and a step's tree is filled with leaves of no examples: that makes every arena that a step makes.
Nothing is computed.
"""

import json
import os

from refimpl.experiments.bench.job import answer
from refimpl.experiments.mesh.ranks.nets import make_net, options_of
from refimpl.gradients import leaves_of
from refimpl.plan import make_plan
from refimpl.plan.mesh import with_mesh
from refimpl.strategies import Columns
from refimpl.training.parameters import Parameters
from refimpl.transport import Communicator

TINY = {"kind": "vgg", "image_shape": [8, 8, 3], "classes": 10, "stages": [1], "width": 4, "connected": [16],
        "blocks": 8}


def main(comm: Communicator, wanted: dict) -> list[dict]:
    """Return what each rank holds. wanted: net, members K, microbatches V, optimizer. Collective."""
    net = make_net(wanted["net"])
    opened(make_net(TINY), comm, wanted)  # what computes first values is loaded
    before = resident()
    parameters = opened(net, comm, wanted)
    grown = resident() - before
    found = {**held(parameters), "grown": grown}  # scratch is of messages, and touched by the first of them
    return [json.loads(text) for text in comm.share_text(json.dumps(found))]


def opened(net, comm, wanted: dict) -> Parameters:
    """Return the parameters of a network on a 1 x K mesh, with all that a step makes. Collective."""
    mesh = f"1x{comm.size}"
    plan = make_plan(net.variables, "allreduce", comm.size, wanted["microbatches"],
                     allreduce=options_of(mesh).allreduce)
    plan = with_mesh(plan, net.variables, mesh)
    parameters = Parameters.open(net.variables, plan, comm, 0, wanted["optimizer"], shared=False)
    fill(parameters)
    return parameters


def fill(parameters) -> None:
    """Push a step's leaves into every tree, and write to every array, so that its memory is real. Local."""
    plan, rank = parameters.plan, parameters.comm.rank
    mesh = plan.on_mesh
    own = leaves_of(rank, plan.ranks, plan.microbatches)
    groups = [v for r in mesh.group(rank) for v in leaves_of(r, plan.ranks, plan.microbatches)]
    for exchange in parameters.exchanges:
        cut = isinstance(plan.strategies[exchange.variables[0].name], Columns)
        for leaf in groups if cut else own:
            exchange.add(leaf, None)
        for shard in exchange.shards.values():
            for array in shard.state.values():
                array[...] = 0


def held(parameters) -> dict:
    """Return the bytes of this rank's arrays, by what they are for. Local; after ``fill``."""
    found = dict.fromkeys(("values", "gradients", "state", "arenas", "scratch"), 0)
    for exchange in parameters.exchanges:
        found["values"] += exchange.values.flat.nbytes
        found["state"] += sum(array.nbytes for shard in exchange.shards.values() for array in shard.state.values())
        first, *others = exchange.allreduce.slots  # the sum comes to lie in the first
        tree = exchange.gradients
        flats = [arena.flat for arena in tree.free] + [arena.flat for _, arena in tree.tree.parts]
        found["gradients"] += first.nbytes
        found["arenas"] += sum({a.ctypes.data: a.nbytes for a in [*others, *flats]
                                if a.ctypes.data != first.ctypes.data}.values())
        found["scratch"] += sum(array.nbytes for lane in exchange.allreduce.runner.scratch for array in lane.values())
    return found


def resident() -> int:
    """Return the resident bytes of this process, as the kernel counts them. Local."""
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


if __name__ == "__main__":
    answer(main)
