"""What each rank of ``bench torch`` does: the same module trained by us and by the peer, in turns; rank 0 prints.

    mpirun -n 4 python -m mpi4py -m refimpl.experiments.bench.torch.ranks '{"works": ["cnn"], ...}'
"""

import gc
import statistics
from dataclasses import asdict
from operator import truediv

import numpy as np

from refimpl.experiments.bench.job import answer
from refimpl.experiments.bench.peers import import_torch, join_gloo
from refimpl.experiments.bench.peers.torch_ddp import DdpReplica
from refimpl.experiments.bench.steps import SEED, computation, race_with_cards, time_alone
from refimpl.experiments.bench.together import PairedRow
from refimpl.experiments.bench.torch.works import work_of
from refimpl.experiments.bench.training.run import HYBRID, PEER
from refimpl.torch import TorchModel
from refimpl.training.options import Options
from refimpl.training.trainer import Trainer
from refimpl.transport import Communicator


def main(comm: Communicator, wanted: dict) -> dict:
    """Race the works; return what was found. wanted: works, where, small, seconds, rounds. Collective."""
    found = []
    join_gloo(import_torch(), comm)
    for name in wanted["works"]:
        found.append(race_work(comm, name, wanted))
        gc.collect()  # the next one has its own tables
    return {"rows": [row for of_work in found for row in of_work["rows"]],
            **{what: {name: of_work[what] for name, of_work in zip(wanted["works"], found)}
               for what in ("losses", "alpha")}}


def race_work(comm: Communicator, name: str, wanted: dict) -> dict:
    """Return {"rows", "losses", "alpha"} of one work. Collective."""
    work, losses = work_of(name, wanted["small"]), {HYBRID: [], PEER: []}
    model, data = TorchModel(work.make(), work.loss), work.data(comm.size)
    trainer = Trainer.open(model, data, Options(seed=SEED, **work.options), comm)
    replica = DdpReplica(work, data, comm.rank)
    steps = {HYBRID: lambda: losses[HYBRID].append(trainer.train_step()["loss"]),
             PEER: lambda: losses[PEER].append(replica.step())}
    measured = race_with_cards(comm, steps, wanted["seconds"], wanted["rounds"])
    alone = time_alone(comm, {HYBRID: computation(model, data, comm.rank), PEER: replica.computation()})
    losses[PEER] = comm.share(np.array(losses[PEER]), "bench").mean(axis=0).tolist()
    ratios = sorted(map(truediv, measured[PEER].turns, measured[HYBRID].turns))
    rows = []
    for who, raced in measured.items():
        ratio = statistics.median(ratios) if who == PEER else None
        row = PairedRow(f"torch-{name}{wanted['where']}", f"{comm.size} ranks x {work.size}", who, who == PEER,
                        raced.seconds, ratio)
        rows.append({**asdict(row), "examples_per_second": data.examples(0) / raced.seconds, "unit": work.unit,
                     "compute_seconds": alone[who], **({"card_bytes": raced.card} if raced.card else {}),
                     **({"ratios": [ratios[0], ratios[-1]]} if ratio else {})})
    return {"rows": rows, "losses": losses, "alpha": trainer.alpha}


if __name__ == "__main__":
    answer(main)
