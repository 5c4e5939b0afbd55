"""What each rank of ``bench allreduce --device cuda`` does: check on exact sums, then race; rank 0 prints JSON.

    mpirun -n 2 python -m mpi4py -m refimpl.experiments.bench.allreduce.gpu_ranks '{"sizes": [65536], ...}'
"""

import json
import sys
from dataclasses import asdict

import numpy as np

from refimpl.collectives import make_schedule
from refimpl.collectives.running.allreduce import open_allreduce
from refimpl.collectives.units import size_name
from refimpl.experiments.bench.allreduce.check import check_sum
from refimpl.experiments.bench.together import race_together
from refimpl.training.device import open_device
from refimpl.transport import CollectiveError, Communicator

ALGORITHMS = ("ring", "direct", "halving-doubling")


def main(comm: Communicator, wanted: dict) -> None:
    """Race over all sizes; rank 0 prints JSON. wanted: sizes (bytes), seconds, rounds. Collective."""
    device = open_device("cuda", comm)
    comm.add_device(device.index, "nccl")
    rows = []
    for nbytes in wanted["sizes"]:
        ours = {f"refimpl {name} over NCCL": _ready(comm, device, name, nbytes // 4) for name in ALGORITHMS
                if name != "halving-doubling" or comm.size & (comm.size - 1) == 0}
        peers = {"NCCL allreduce": _ready(comm, device, "nccl", nbytes // 4)}
        rows += [{**asdict(row), "bytes": nbytes} for row in
                 race_together(comm, "gpu", size_name(nbytes), ours, peers, wanted["seconds"], wanted["rounds"])]
    if comm.rank == 0:
        print(json.dumps({"rows": rows, "ranks": comm.size, "gpu": str(device),
                          "transport": comm.device_transport.reason}), flush=True)


def _ready(comm, device, algorithm, elements):
    """Return a function that sums a vector over all ranks and waits for it, after a check on exact sums. Collective."""
    allreduce = open_allreduce(make_schedule(algorithm, comm.size, comm.size), comm, elements,
                               device.xp.empty(0, np.float32), "bench", lambda start, stop: {"vector": stop - start})
    stream = device.xp.cuda.get_current_stream()

    def summed():
        total = allreduce()
        stream.synchronize()
        return total

    def settled():
        total = allreduce()
        comm.settle()  # a peer that never comes is named here, where synchronize() would wait for ever
        return total

    check_sum(comm, algorithm, allreduce.slots[0], settled)
    return summed


if __name__ == "__main__":
    everyone = Communicator.of()
    try:
        main(everyone, json.loads(sys.argv[1]))
    except CollectiveError as problem:  # all ranks have met it
        sys.exit(str(problem) if everyone.rank == 0 else 1)
