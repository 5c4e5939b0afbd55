"""What each rank of ``bench allreduce`` does: check every allreduce on exact sums, then race them; rank 0 prints JSON.

    mpirun -n 4 python -m mpi4py -m refimpl.experiments.bench.allreduce_ranks '{"work": "machine", ...}'
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
from refimpl.experiments.bench.gloo import join_gloo
from refimpl.experiments.bench.peers import import_torch
from refimpl.experiments.bench.together import race_together
from refimpl.transport import Communicator, peer_memory


def main(wanted: dict) -> None:
    """Race one work over all sizes. wanted: work, sizes (bytes), algorithms, seconds, rounds. Collective."""
    comm = Communicator()
    gloo = _gloo(comm)
    rows = []
    for nbytes in wanted["sizes"]:
        elements = nbytes // 4
        ours = {name: ready for algorithm in wanted["algorithms"]
                for name, ready in _ours(comm, wanted["work"], algorithm, elements).items()}
        peers = _peers(comm.mpi, gloo, elements)
        for name, (arrays, function) in {**ours, **peers}.items():
            _check(comm, name, arrays, function)
        measured = race_together(comm, wanted["work"], size_name(nbytes), {n: f for n, (_, f) in ours.items()},
                                 {n: f for n, (_, f) in peers.items()}, wanted["seconds"], wanted["rounds"])
        rows += [{**asdict(row), "bytes": nbytes} for row in measured]
    road = _road(comm) if wanted["work"] == "machine-private" else ""
    if comm.rank == 0:
        print(json.dumps({"rows": rows, "machines": len(comm.machines), "ranks": comm.size, "road": road}), flush=True)


def _ours(comm, work, algorithm, elements):
    """Return name -> (arrays to fill, function that sums them and returns the sum)."""
    machines = comm.machines if algorithm == "hierarchical" else None
    schedule = make_schedule(algorithm, comm.size, comm.size, machines=machines)
    like, name = np.empty(0, np.float32), f"refimpl {algorithm}"
    in_memory = work in ("machine", "machine-private", "cluster-hierarchical")
    if not in_memory:
        private = np.zeros(elements, np.float32)
        runner = Runner(schedule, comm, elements, like, "bench", _nobody)
        return {name: (private, lambda: runner([private]))}
    runner = open_allreduce(schedule, comm, elements, like, "bench", _nobody)
    if work != "machine-private":
        return {f"{name}, in place": (runner.slots[0], runner)}
    private = np.zeros(elements, np.float32)
    return {f"{name}, private": (private, lambda: runner([private]))}


def _road(comm):
    """Say how private arrays meet on this host. Collective."""
    if peer_memory.ranks_reach_each_other(comm):
        return f"from {size_name(peer_memory.LONG)} on, each rank reads its share of the others' arrays where they lie"
    return "copied in and out of shared memory: this host lets no rank reach another's memory (ptrace_scope, seccomp)"


def _nobody(start, stop):
    return {"vector": stop - start}


def _peers(comm, gloo, elements):
    """Return name -> (array to fill, function that sums it and returns the sum) of the libraries' own allreduces."""
    array = np.zeros(elements, np.float32)

    def library():
        comm.Allreduce(MPI.IN_PLACE, array)
        return array

    version = MPI.Get_library_version()
    name = "Open MPI" if version.startswith("Open MPI") else "MPICH"
    peers = {f"{name} Allreduce": (array, library)}
    if gloo is not None:
        tensor = gloo.from_numpy(np.zeros(elements, np.float32))

        def torchs():
            gloo.distributed.all_reduce(tensor)
            return tensor.numpy()

        peers["gloo (torch)"] = (tensor.numpy(), torchs)
    return peers


def _gloo(comm):
    """Return torch with a gloo group over the communicator's ranks, or None where it is not installed. Collective."""
    torch = import_torch()
    if torch is not None:
        join_gloo(torch, comm)
    return torch


def _check(comm, name, array, function):
    """Raise ValueError on every rank if an allreduce is wrong; leave zeros, written so that their memory is real."""
    place = np.arange(array.size) % 97
    array[...] = place * (comm.rank + 1)
    total = function()
    wrong = not (total == place * (comm.size * (comm.size + 1) // 2)).all()
    comm.agree(ValueError(f"{name} gives a wrong sum of {array.size} elements") if wrong else None)
    array[...] = 0
    comm.meet("a benchmark")


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
