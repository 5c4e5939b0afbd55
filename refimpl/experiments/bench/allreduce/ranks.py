"""What each rank of ``bench allreduce`` does: check every allreduce on exact sums, then race them; rank 0 prints JSON.

    mpirun -n 4 python -m mpi4py -m refimpl.experiments.bench.allreduce.ranks '{"work": "machine", ...}'
"""

import sys
from dataclasses import asdict

import numpy as np
from mpi4py import MPI

from refimpl.collectives import make_schedule
from refimpl.collectives.running.allreduce import open_allreduce
from refimpl.collectives.running.runner import ScheduleRunner
from refimpl.collectives.units import size_name
from refimpl.experiments.bench.job import answer
from refimpl.experiments.bench.peers import import_torch, join_gloo
from refimpl.experiments.bench.together import check_sum, race_together
from refimpl.training.device import open_device
from refimpl.transport import CollectiveError, Communicator, peer_memory

GPU_ALGORITHMS = ("ring", "direct", "halving-doubling")


def main(comm: Communicator, wanted: dict) -> dict:
    """Race one work over all sizes. wanted: work, sizes (bytes), algorithms, seconds, rounds. Collective."""
    race_sizes = race_on_gpus if wanted["work"] == "gpu" else race_on_hosts
    try:
        return {**race_sizes(comm, wanted), "ranks": comm.size}
    except CollectiveError as problem:  # all ranks have met it
        sys.exit(str(problem) if comm.rank == 0 else 1)


def race(comm: Communicator, wanted: dict, nbytes: int, ours: dict, peers: dict) -> list[dict]:
    """Return the rows of one size. Collective."""
    rows = race_together(comm, wanted["work"], size_name(nbytes), ours, peers, wanted["seconds"], wanted["rounds"])
    return [{**asdict(row), "bytes": nbytes} for row in rows]


def race_on_hosts(comm: Communicator, wanted: dict) -> dict:
    """Race on arrays of the host; return rows, number of machines and path of private arrays. Collective."""
    if (torch := import_torch()) is not None:
        join_gloo(torch, comm)
    rows = []
    for nbytes in wanted["sizes"]:
        ours = {name: ready for algorithm in wanted["algorithms"]
                for name, ready in _ours(comm, wanted["work"], algorithm, nbytes // 4).items()}
        peers = _peers(comm.mpi, torch, nbytes // 4)
        for name, (array, function) in {**ours, **peers}.items():
            check_sum(comm, name, array, function)
        rows += race(comm, wanted, nbytes, *({n: f for n, (_, f) in some.items()} for some in (ours, peers)))
    path = _path(comm) if wanted["work"] == "machine-private" else ""
    return {"rows": rows, "machines": len(comm.machines), "path": path}


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
    runner = ScheduleRunner(schedule, comm, elements, like, "bench", _counted)
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


def race_on_gpus(comm: Communicator, wanted: dict) -> dict:
    """Race on arrays of GPUs; return rows, GPU and transport. Collective."""
    device = open_device("cuda", comm)
    comm.add_device(device.index, "nccl")
    rows = []
    for nbytes in wanted["sizes"]:
        ours = {f"refimpl {name} over NCCL": _on_gpu(comm, device, name, nbytes // 4) for name in GPU_ALGORITHMS
                if name != "halving-doubling" or comm.size & (comm.size - 1) == 0}
        peers = {"NCCL allreduce": _on_gpu(comm, device, "nccl", nbytes // 4)}
        rows += race(comm, wanted, nbytes, ours, peers)
    return {"rows": rows, "gpu": str(device), "transport": comm.device_transport.reason}


def _on_gpu(comm, device, algorithm, elements):
    """Return a function that sums a vector over all ranks and waits for it, after a check on exact sums. Collective."""
    allreduce = open_allreduce(make_schedule(algorithm, comm.size, comm.size), comm, elements,
                               device.xp.empty(0, np.float32), "bench", _counted)
    stream = device.xp.cuda.get_current_stream()

    def total():
        reduced = allreduce()
        stream.synchronize()
        return reduced

    def settled():
        reduced = allreduce()
        comm.settle()  # a peer that never comes is named here, where synchronize() would wait for ever
        return reduced

    check_sum(comm, algorithm, allreduce.slots[0], settled)
    return total


if __name__ == "__main__":
    answer(main)
