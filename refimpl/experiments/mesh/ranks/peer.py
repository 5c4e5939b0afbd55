"""Trains the same network on the same mesh with ours and with PyTorch's DeviceMesh over gloo, step by step in turns."""

import statistics

from refimpl.experiments.bench.job import answer
from refimpl.experiments.bench.peers import import_torch, join_gloo
from refimpl.experiments.bench.steps import race_with_cards
from refimpl.experiments.mesh.ranks.nets import OPTIONS, make_data, make_net, options_of
from refimpl.training.trainer import Trainer
from refimpl.transport import Communicator


def main(comm: Communicator, wanted: dict) -> list[dict]:
    """Return a record for each mesh. wanted: net, members (K of each), examples of a step, allreduce, seconds, rounds.

    Collective.
    """
    if (torch := import_torch()) is not None:
        join_gloo(torch, comm)
    return [raced(comm, wanted, members, torch) for members in wanted["members"]]


def raced(comm, wanted: dict, members: int, torch) -> dict:
    """Return what a race on one mesh found: seconds of each turn, bytes of the busiest card, our phases. Collective."""
    mesh, net = f"{comm.size // members}x{members}", make_net(wanted["net"])
    data = make_data(wanted["net"], comm.size, wanted["examples"] // comm.size)
    trainer = Trainer.open(net, data, options_of(mesh, allreduce=wanted["allreduce"]), comm)
    phases: dict = {}

    def ours():
        for phase, seconds in trainer.train_step()["seconds"].items():
            phases.setdefault(phase, []).append(seconds)

    steps = {"refimpl": ours}
    if torch is not None:
        from refimpl.experiments.bench.peers.torch_mesh import MeshReplica

        peer = MeshReplica(net, comm.size // members, members, OPTIONS["learning_rate"])
        each = wanted["examples"] // comm.size
        own = slice(comm.rank * each, (comm.rank + 1) * each)
        images, targets = data.inputs[own], data.targets[own]
        steps["torch"] = lambda: peer.step(images, targets)
    found = race_with_cards(comm, steps, wanted["seconds"], wanted["rounds"])
    return {"mesh": mesh, "examples": data.examples(0),
            "phases": {phase: statistics.median(some) for phase, some in phases.items()},
            "turns": {name: raced.turns for name, raced in found.items()},
            "card": {name: raced.card for name, raced in found.items()}}


if __name__ == "__main__":
    answer(main)
