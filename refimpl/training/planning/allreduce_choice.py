"""``--allreduce auto``: the canonical algorithm that should be fastest for this model on this network, and why."""

import json

import numpy as np

from refimpl.collectives.auto import choose_algorithm
from refimpl.collectives.choose import make_schedule
from refimpl.collectives.simulation.calibrate import network_of
from refimpl.plan.make import summed_by
from refimpl.training.run.files import write_json


def choose_allreduce(variables, options, comm, microbatches: int, network_file=None) -> tuple[str, str] | None:
    """Return (algorithm, why), None where an algorithm was named or nothing goes by allreduce. Collective.

    Ranks must have agreed on their options. The network is measured only where there are several machines, and kept in
    ``network_file`` (None: nowhere) for those who resume.
    """
    if options.allreduce != "auto":
        return None
    layout = comm.together(lambda: summed_by(variables, options.architecture, options.sparse_as_dense,
                                             options.shard_optimizer), (ValueError,))
    if layout is None:
        return None
    if comm.device_transport is not None and (len(comm.machines) == 1 or comm.device_transport.name == "nccl"):
        return between_gpus(comm.machines, microbatches)
    network = network_of(comm, network_file, write_network) if len(comm.machines) > 1 else None
    itemsize = np.dtype(layout.dtype).itemsize

    def choose():
        choice = choose_algorithm(microbatches, layout.size, itemsize, comm.machines, network,
                                  shared_memory=options.shared_memory)
        return json.dumps((choice.algorithm, choice.reason))

    return tuple(json.loads(comm.once(choose)))


def between_gpus(machines, microbatches: int) -> tuple[str, str]:
    """Return (algorithm, why) for GPUs, which have no memory in common: the fewest bytes between machines. Local.

    What MPI's network could be measured at says nothing of NCCL's.
    """
    ranks = sum(map(len, machines))
    if 1 < len(machines) < ranks:
        name = "hierarchical"
    else:
        name = make_schedule("auto", ranks, microbatches).name
    return name, f"allreduce auto: {name}, canonical; between GPUs nothing is measured"


def write_network(path, value):
    """Write a calibrated network's JSON beside a run's other files. Local to rank 0; raises OSError with a remedy."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_json(path, value)
    except OSError as problem:
        raise OSError(f"cannot write the network to {path}: {problem.strerror}; give another --output") from problem
