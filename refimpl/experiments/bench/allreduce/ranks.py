"""The work of each rank in ``bench allreduce``: check every allreduce on exact sums, then time them in turns."""

import numpy as np
from mpi4py import MPI

from refimpl.collectives import make_schedule
from refimpl.collectives.running.allreduce import open_allreduce
from refimpl.collectives.running.runner import ScheduleRunner
from refimpl.collectives.units import size_name
from refimpl.experiments.bench.allreduce.schedules import check_sum
from refimpl.experiments.bench.peers import join_gloo
from refimpl.experiments.bench.timing import race_together
from refimpl.training.device import open_device
from refimpl.transport import Communicator
from refimpl.transport.memory import peer_memory

GPU_ALGORITHMS = ("ring", "direct", "halving-doubling")


def race_on_hosts(comm: Communicator, work: str, sizes: list, algorithms: list, seconds: float, rounds: int) -> dict:
    """Time arrays of the host, of each of ``sizes`` bytes; return rows, and the path of private arrays. Collective."""
    torch, rows = join_gloo(comm), []
    for nbytes in sizes:
        ours = {name: ready for algorithm in algorithms
                for name, ready in _ours(comm, work, algorithm, nbytes // 4).items()}
        peers = _peers(comm.mpi, torch, nbytes // 4)
        for name, (array, function) in {**ours, **peers}.items():
            check_sum(comm, name, array, function)
        ours, peers = ({name: function for name, (_, function) in some.items()} for some in (ours, peers))
        rows += [{**row, "bytes": nbytes}
                 for row in race_together(comm, work, size_name(nbytes), ours, peers, seconds, rounds)]
    return {"rows": rows, "machines": len(comm.machines), "ranks": comm.size,
            "path": _path(comm) if work == "machine-private" else ""}


def _ours(comm, work, algorithm, elements):
    """Return name -> (array to fill, function that sums it and returns the sum)."""
    machines = comm.machines if algorithm == "hierarchical" else None
    schedule = make_schedule(algorithm, comm.size, comm.size, machines=machines)
    name, private = f"refimpl {algorithm}", np.zeros(elements, np.float32)
    if work in ("cluster", "cards"):
        runner = ScheduleRunner(schedule, comm, elements, private, "bench", _counted)
        return {name: (private, lambda: runner([private]))}
    allreduce = open_allreduce(schedule, comm, elements, private, "bench", _counted)
    if work == "machine-private":
        return {f"{name}, private": (private, lambda: allreduce([private]))}
    return {f"{name}, in place": (allreduce.slots[0], allreduce)}


def _path(comm):
    """Return a sentence that says how private arrays are added on this host. Collective."""
    if peer_memory.ranks_reach_each_other(comm):
        return (f"from {size_name(peer_memory.LONG)} on copied, or read where they lie, whichever has been faster; "
                "shorter arrays are copied")
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


def race_on_gpus(comm: Communicator, sizes: list, seconds: float, rounds: int) -> dict:
    """Time arrays on GPUs, of each of ``sizes`` bytes; return rows, GPU and transport. Collective."""
    device = open_device("cuda", comm)
    comm.add_device(device.index, "nccl")
    rows = []
    for nbytes in sizes:
        ours = {f"refimpl {name} over NCCL": _on_gpu(comm, device, name, nbytes // 4) for name in GPU_ALGORITHMS
                if name != "halving-doubling" or comm.size & (comm.size - 1) == 0}
        peers = {"NCCL allreduce": _on_gpu(comm, device, "nccl", nbytes // 4)}
        rows += [{**row, "bytes": nbytes}
                 for row in race_together(comm, "gpu", size_name(nbytes), ours, peers, seconds, rounds)]
    return {"rows": rows, "gpu": str(device), "ranks": comm.size, "transport": comm.device_transport.reason}


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
        comm.settle()  # this names a missing peer; synchronize() would wait for ever
        return reduced

    check_sum(comm, algorithm, allreduce.slots[0], settled)
    return total
