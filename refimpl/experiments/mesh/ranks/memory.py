"""Allocates what each rank of a 1 x K mesh holds of a network, and counts it: array by array, and as the kernel does.

Parameters are opened and a step's tree is filled with leaves of no examples: that makes every arena that a step makes.
Nothing is computed.
"""

import json
import os
import sys

from refimpl.experiments.mesh.ranks.nets import make_net, options_of
from refimpl.gradients import leaves_of
from refimpl.plan import make_plan
from refimpl.plan.mesh import with_mesh
from refimpl.training.parameters import Parameters
from refimpl.transport import Communicator


def main(wanted: dict) -> None:
    """Print what ranks hold. wanted: net, members K, microbatches V, optimizer. Collective."""
    comm, net = Communicator.of(), make_net(wanted["net"])
    mesh, microbatches = f"1x{comm.size}", wanted["microbatches"]
    plan = make_plan(net.variables, "allreduce", comm.size, microbatches, allreduce=options_of(mesh).allreduce)
    plan = with_mesh(plan, net.variables, mesh)
    before = resident()
    parameters = Parameters.open(net.variables, plan, comm, 0, wanted["optimizer"], shared=False)
    fill(parameters, plan)
    grown = resident() - before
    found = {**held(parameters), "grown": grown}  # scratch is of messages, and touched by the first of them
    everyone = [json.loads(text) for text in comm.share_text(json.dumps(found))]
    if comm.rank == 0:
        print(json.dumps(everyone), flush=True)


def fill(parameters, plan) -> None:
    """Push a step's leaves into every tree, and write to every array, so that its memory is real. Local."""
    mesh, rank = plan.on_mesh, parameters.comm.rank
    own = leaves_of(rank, plan.ranks, plan.microbatches)
    groups = [v for r in mesh.group(rank) for v in leaves_of(r, plan.ranks, plan.microbatches)]
    for exchange in parameters.exchanges:
        cut = plan.strategies[exchange.variables[0].name].name == "columns"
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
    main(json.loads(sys.argv[1]))
