"""What each rank of ``bench allreduce`` does: check every allreduce on exact sums, then race them; rank 0 prints JSON.

    mpirun -n 4 python -m mpi4py -m refimpl.experiments.bench.allreduce.ranks '{"work": "machine", ...}'
"""

import json
import sys
from dataclasses import asdict

import numpy as np
from mpi4py import MPI

from refimpl.collectives import make_schedule
from refimpl.collectives.running.allreduce import open_allreduce
from refimpl.collectives.running.runner import Runner
from refimpl.collectives.units import size_name
from refimpl.experiments.bench.allreduce.check import check_sum
from refimpl.experiments.bench.peers import import_torch, join_gloo
from refimpl.experiments.bench.together import race_together
from refimpl.transport import Communicator, peer_memory


def main(wanted: dict) -> None:
    """Race one work over all sizes. wanted: work, sizes (bytes), algorithms, seconds, rounds. Collective."""
    comm = Communicator.of()
    if (torch := import_torch()) is not None:
        join_gloo(torch, comm)
    rows = []
    for nbytes in wanted["sizes"]:
        elements = nbytes // 4
        ours = {name: ready for algorithm in wanted["algorithms"]
                for name, ready in _ours(comm, wanted["work"], algorithm, elements).items()}
        peers = _peers(comm.mpi, torch, elements)
        for name, (array, function) in {**ours, **peers}.items():
            check_sum(comm, name, array, function)
        measured = race_together(comm, wanted["work"], size_name(nbytes), {n: f for n, (_, f) in ours.items()},
                                 {n: f for n, (_, f) in peers.items()}, wanted["seconds"], wanted["rounds"])
        rows += [{**asdict(row), "bytes": nbytes} for row in measured]
    path = _path(comm) if wanted["work"] == "machine-private" else ""
    if comm.rank == 0:
        print(json.dumps({"rows": rows, "machines": len(comm.machines), "ranks": comm.size, "path": path}), flush=True)


def _ours(comm, work, algorithm, elements):
    """Return name -> (array to fill, function that sums it and returns the sum)."""
    machines = comm.machines if algorithm == "hierarchical" else None
    schedule = make_schedule(algorithm, comm.size, comm.size, machines=machines)
    like, name = np.empty(0, np.float32), f"refimpl {algorithm}"
    if work in ("machine", "cluster-hierarchical"):
        allreduce = open_allreduce(schedule, comm, elements, like, "bench", _counted)
        return {f"{name}, in place": (allreduce.slots[0], allreduce)}
    private = np.zeros(elements, np.float32)
    if work == "machine-private":
        allreduce = open_allreduce(schedule, comm, elements, like, "bench", _counted)
        return {f"{name}, private": (private, lambda: allreduce([private]))}
    runner = Runner(schedule, comm, elements, like, "bench", _counted)
    return {name: (private, lambda: runner([private]))}


def _path(comm):
    """Say how private arrays meet on this host. Collective."""
    if peer_memory.ranks_reach_each_other(comm):
        return f"from {size_name(peer_memory.LONG)} on, each rank reads its share of the others' arrays where they lie"
    return "copied in and out of shared memory: this host lets no rank reach another's memory (ptrace_scope, seccomp)"


def _counted(start, stop):
    return {"vector": stop - start}


def _peers(comm, torch, elements):
    """Return name -> (array to fill, function that sums it and returns the sum) of the libraries' own allreduces."""
    array = np.zeros(elements, np.float32)

    def library():
        comm.Allreduce(MPI.IN_PLACE, array)
        return array

    version = MPI.Get_library_version()
    name = "Open MPI" if version.startswith("Open MPI") else "MPICH"
    peers = {f"{name} Allreduce": (array, library)}
    if torch is not None:
        tensor = torch.from_numpy(np.zeros(elements, np.float32))

        def torchs():
            torch.distributed.all_reduce(tensor)
            return tensor.numpy()

        peers["gloo (torch)"] = (tensor.numpy(), torchs)
    return peers


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
