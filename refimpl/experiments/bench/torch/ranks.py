"""What each rank of ``bench torch`` does: the same module trained by us and by the peer, in turns; rank 0 prints.

    mpirun -n 4 python -m mpi4py -m refimpl.experiments.bench.torch.ranks '{"works": ["cnn"], ...}'
"""

import gc
import json
import statistics
import sys
from dataclasses import asdict
from operator import truediv

import numpy as np
from threadpoolctl import threadpool_limits

from refimpl.experiments.bench.peers import import_torch, join_gloo
from refimpl.experiments.bench.steps import WARM_UP, computation, race_with_cards, time_alone
from refimpl.experiments.bench.together import PairedRow
from refimpl.experiments.bench.torch.run import HYBRID, PEER
from refimpl.torch import TorchModel
from refimpl.training.options import Options
from refimpl.training.trainer import Trainer
from refimpl.transport import Communicator


def main(wanted: dict) -> None:
    """Race the works and print what was found. wanted: works, where, small, seconds, rounds. Collective."""
    comm, found = Communicator.of(), []
    with threadpool_limits(1):
        join_gloo(import_torch(), comm)
        for name in wanted["works"]:
            found.append(race_work(comm, name, wanted))
            gc.collect()  # the next one has its own tables
    if comm.rank == 0:
        print(json.dumps({"rows": [row for of_work in found for row in of_work["rows"]],
                          "losses": {name: of_work["losses"] for name, of_work in zip(wanted["works"], found)},
                          "alpha": {name: of_work["alpha"] for name, of_work in zip(wanted["works"], found)}}),
              flush=True)


def race_work(comm: Communicator, name: str, wanted: dict) -> dict:
    """Return {"rows", "losses", "alpha"} of one work. Collective."""
    from refimpl.experiments.bench.peers.torch_ddp import Replica
    from refimpl.experiments.bench.torch.works import work_of

    work = work_of(name, wanted["small"])
    model, data = TorchModel(work.make(), work.loss), work.data(comm.size)
    trainer, replica = Trainer.open(model, data, Options(**work.options), comm), Replica(work, data, comm.rank)
    losses = {HYBRID: [], PEER: []}
    measured = race_with_cards(comm, {HYBRID: lambda: losses[HYBRID].append(trainer.train_step()["loss"]),
                                      PEER: lambda: losses[PEER].append(replica.step())},
                               wanted["seconds"], wanted["rounds"])
    alone = time_alone(comm, {HYBRID: computation(model, data, comm.rank), PEER: replica.computation()})
    losses[PEER] = comm.share(np.array(losses[PEER]), "bench").mean(axis=0).tolist()
    ratios = sorted(map(truediv, measured[PEER].turns, measured[HYBRID].turns))
    size, rows = f"{comm.size} ranks x {work.size}", []
    for who, raced in measured.items():
        ratio = {PEER: statistics.median(ratios)}.get(who)
        row = PairedRow(f"torch-{name}{wanted['where']}", size, who, who == PEER, raced.seconds, ratio)
        rows.append({**asdict(row), "examples_per_second": data.examples(0) / raced.seconds, "unit": work.unit,
                     "compute_seconds": alone[who], **({"card_bytes": raced.card} if raced.card else {}),
                     **({"ratios": [ratios[0], ratios[-1]]} if ratio else {})})
    return {"rows": rows, "losses": losses, "alpha": trainer.alpha}


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
