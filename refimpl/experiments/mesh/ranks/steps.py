"""Times steps of trainings on meshes, in turns: a slow moment of the machine falls on all alike.

A cell is {"name", "net", "mesh", "microbatches", "size"}: V microbatches of so many examples, in all.
"""

from refimpl.experiments.bench.job import answer
from refimpl.experiments.bench.together import time_together
from refimpl.experiments.mesh.ranks.nets import make_data, make_net, options_of
from refimpl.training.trainer import Trainer
from refimpl.transport import Communicator

WARM = 2  # steps: connections, memory


def main(comm: Communicator, wanted: dict) -> dict:
    """Time the cells; return, by name, the seconds of each round, and the bytes that rank 0 sends in a step. Collective.

    wanted: cells, rounds.
    """
    trainers = {cell["name"]: Trainer.open(
        make_net(cell["net"]), make_data(cell["net"], cell["microbatches"], cell["size"]), options_of(cell["mesh"]),
        comm) for cell in wanted["cells"]}
    for trainer in trainers.values():
        for _ in range(WARM):
            trainer.train_step()
    seconds, sent = {name: [] for name in trainers}, {}
    for number in range(wanted["rounds"]):
        for name in list(trainers)[::-1 if number % 2 else 1]:
            seconds[name].append(time_together(comm, trainers[name].train_step, 1))
            sent[name] = trainers[name].comm.ledger.total("sent")
    return {"seconds": seconds, "sent": sent}


if __name__ == "__main__":
    answer(main)
