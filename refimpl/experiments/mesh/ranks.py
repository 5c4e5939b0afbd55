"""What the ranks do in these measurements: each job is a function that returns plain data on rank 0."""

import json
import os
import statistics
from functools import cache

import numpy as np

from models.data import Examples
from refimpl.experiments.bench.peers import join_gloo
from refimpl.experiments.bench.timing import paired, race_steps, take_turns, time_together
from refimpl.experiments.mesh.nets import make_net
from refimpl.gradients import leaves_of
from refimpl.plan import make_plan, predict_step
from refimpl.plan.activations import examples_in
from refimpl.plan.mesh import with_mesh
from refimpl.strategies import Columns
from refimpl.training.options import Options
from refimpl.training.parameters import Parameters
from refimpl.training.trainer import Trainer
from refimpl.transport import Communicator

RATE = 1e-4
"""Small, because nothing can be learnt from random examples."""
ALLREDUCE = "halving-doubling"
"""The schedule with the exact bytes of the formula."""
STEPS, WARM = 2, 2  # steps whose bytes are compared; steps before time counts, for connections and memory
MOST = 2**25
"""About the bytes of all examples."""
TINY = {"kind": "vgg", "image_shape": [8, 8, 3], "classes": 10, "stages": [1], "width": 4, "connected": [16],
        "blocks": 8}


def open_trainer(comm, net: dict, mesh: str, microbatches: int, size: int, **changes) -> Trainer:
    """Return the trainer of a net on a mesh, with V microbatches of ``size`` examples. changes: options. Collective."""
    options = Options(**{"mesh": mesh, "steps": 10**6, "optimizer": "momentum", "learning_rate": RATE,
                         "architecture": "allreduce", "allreduce": ALLREDUCE, **changes})
    return Trainer.open(make_net(net), make_data(net, microbatches, size), options, comm)


def make_data(net: dict, microbatches: int, size: int):
    """Return data whose steps all have the same random examples, on every rank. Local."""
    images = net["kind"] != "perceptron"
    inputs, targets = _drawn(images, *((tuple(net["image_shape"]), net["classes"]) if images else
                                       ((net["inputs"],), net["outputs"])))
    count = microbatches * size
    if count > len(inputs):
        raise ValueError(f"{microbatches} microbatches of {size} are {count} examples, at most {len(inputs)}")
    return Examples(inputs[:count], targets[:count], microbatches, size, shuffle=False)


@cache
def _drawn(images: bool, shape, outputs):
    rng, itemsize = np.random.default_rng(5), 1 if images else 4
    count = min(4096, MOST // (itemsize * int(np.prod(shape))))
    if images:
        return rng.integers(0, 256, (count, *shape), np.uint8), rng.integers(0, outputs, count)
    return rng.standard_normal((count, *shape), np.float32), rng.standard_normal((count, outputs), np.float32)


def compare_bytes(comm: Communicator, nets: dict, microbatches: int, size: int, members: list) -> list[dict]:
    """Train every net (name -> net) on every mesh of these ranks; return a record of each. Collective.

    sent: rank 0's bytes of a step by phase.  keys: of the formula.  different: unequal ones, of all ranks and steps.
    """
    records = []
    for name, net in nets.items():
        for mesh in (f"{comm.size // k}x{k}" for k in members if comm.size % k == 0):
            trainer = open_trainer(comm, net, mesh, microbatches, size, allreduce="auto", shared_memory=False)
            records.append({"net": name, "mesh": mesh, "ranks": comm.size, "steps": STEPS, **_compared(trainer)})
    return records


def _compared(trainer) -> dict:
    comm, data, different, sent = trainer.comm, trainer.data, 0, {}
    for step in range(STEPS):
        trainer.train_step()
        examples = [examples_in(data.microbatch(step, v)) for v in range(data.microbatches)]
        predicted = predict_step(trainer.plan, trainer.model.variables, {}, {}, comm.rank, examples=examples)
        ledger = comm.ledger
        found = {key: (ledger.sent[key], ledger.received[key]) for key in {*ledger.sent, *ledger.received}}
        different += sum(found.get(key, (0, 0)) != predicted.get(key, (0, 0)) for key in found | predicted)
    for (phase, _, kind), (count, _) in predicted.items():
        what = kind if kind == "control" else phase
        sent[what] = sent.get(what, 0) + count
    return {"sent": sent, "keys": len(predicted), "different": int(comm.share(np.array([different]), "bench").sum())}


def time_steps(comm: Communicator, cells: list, rounds: int) -> list:
    """Time a step of each cell in turns; cells: arguments of ``open_trainer``. Collective.

    Returns the least seconds of a round of each, and the bytes that rank 0 sends in a step.
    """
    trainers, sent = {place: open_trainer(comm, **cell) for place, cell in enumerate(cells)}, {}
    for trainer in trainers.values():
        for _ in range(WARM):
            trainer.train_step()

    def timed(place, trainer) -> float:
        seconds = time_together(comm, trainer.train_step, 1)
        sent[place] = trainer.comm.ledger.total("sent")
        return seconds

    return [[min(seconds), sent[place]] for place, seconds in take_turns(trainers, rounds, timed).items()]


def race_peer(comm: Communicator, net: dict, members: list, examples: int, allreduce: str, seconds: float,
              rounds: int) -> list[dict]:
    """Train a net with refimpl and PyTorch's DeviceMesh over gloo, in turns; return a record a mesh. Collective.

    members: K of each mesh.  examples: of a step.  A record has a row of ``paired`` of each, ours first, bytes of the
    busiest card, and our phases.
    """
    torch = join_gloo(comm)
    return [_raced(comm, net, k, examples // comm.size, torch, allreduce, seconds, rounds) for k in members]


def _raced(comm, net, members, each, torch, allreduce, seconds, rounds) -> dict:
    mesh, phases = f"{comm.size // members}x{members}", {}
    trainer = open_trainer(comm, net, mesh, comm.size, each, allreduce=allreduce)

    def ours():
        for phase, took in trainer.train_step()["seconds"].items():
            phases.setdefault(phase, []).append(took)

    steps = {"refimpl": ours}
    if torch is not None:
        from refimpl.experiments.bench.peers.torch_mesh import MeshReplica

        steps["torch"] = MeshReplica(trainer.model, trainer.data, comm.rank, members, RATE).step
    turns, cards = race_steps(comm, steps, seconds, rounds)
    return {"mesh": mesh, "examples": each * comm.size, "rows": paired(mesh, "", turns, ["refimpl"]), "card": cards,
            "phases": {phase: statistics.median(some) for phase, some in phases.items()}}


def allocate(comm: Communicator, net: dict, microbatches: int, optimizer: str) -> list[dict]:
    """Allocate the arrays of each rank of a 1 x K mesh; return bytes by purpose and as the kernel counts. Collective.

    Parameters are opened, and leaves without examples fill the tree, so that every arena of a step is made. Nothing is
    computed.
    """
    net = make_net(net)
    opened(make_net(TINY), comm, microbatches, optimizer)  # loads the code that computes first values
    before = resident()
    parameters = opened(net, comm, microbatches, optimizer)
    found = {"grown": resident() - before, **held(parameters)}  # the first message touches scratch memory
    return [json.loads(text) for text in comm.share_text(json.dumps(found))]


def opened(net, comm, microbatches: int, optimizer: str) -> Parameters:
    """Return the parameters of a network on a 1 x K mesh, with all arrays that a step makes. Collective."""
    plan = make_plan(net.variables, "allreduce", comm.size, microbatches, allreduce=ALLREDUCE)
    plan = with_mesh(plan, net.variables, f"1x{comm.size}")
    parameters = Parameters.open(net.variables, plan, comm, 0, optimizer)
    own = leaves_of(comm.rank, comm.size, microbatches)
    for exchange in parameters.exchanges:
        cut = isinstance(plan.strategies[exchange.variables[0].name], Columns)  # over all ranks, as the mesh is 1 x K
        for leaf in range(microbatches) if cut else own:
            exchange.add(leaf, None)
        for shard in exchange.shards.values():
            for array in shard.state.values():
                array[...] = 0  # so that its memory is real
    return parameters


def held(parameters) -> dict:
    """Return the bytes of this rank's arrays by purpose. Local; after ``opened``."""
    found = dict.fromkeys(("values", "gradients", "state", "arenas", "scratch"), 0)
    for exchange in parameters.exchanges:
        found["values"] += exchange.values.flat.nbytes
        found["state"] += sum(array.nbytes for shard in exchange.shards.values() for array in shard.state.values())
        first, *others = exchange.allreduce.slots  # the first will hold the sum
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
