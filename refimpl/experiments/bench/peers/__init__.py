"""The libraries that benchmarks race against, where they are installed, and our models as written in them."""

import importlib
import importlib.util
import itertools
import os
import sys
import warnings

from refimpl.experiments.cluster.card import on_cluster
from refimpl.experiments.cluster.description import CARD, address
from refimpl.transport import Communicator


def import_torch():
    """Return torch, set to one thread, or None with a note on stderr where it is not installed. Local."""
    try:
        import torch
    except ImportError:
        print("peer left out: torch is not installed (pip install 'refimpl[torch]')", file=sys.stderr)
        return None
    torch.set_num_threads(1)
    torch.sparse.check_sparse_tensor_invariants.disable()  # they cost time; saying so here keeps torch quiet
    warnings.filterwarnings("ignore", "LSTM with projections is not supported with oneDNN")  # so it says
    return torch


def torch_twin(model_name: str, model, options, on: str = "cpu"):
    """Return a model of the registry in PyTorch, ready to train from the values that ours begins with. Local.

    It is ``TWIN`` of ``torch_NAME`` beside this file, None if there is none: step(batch, starts_epoch) does a training
    step on a microbatch.  options: of our trainer, the optimizer's.  on: where it computes.
    """
    module = f"{__name__}.torch_{model_name}"
    if importlib.util.find_spec(module) is None:
        return None
    values = {v.name: v.initial_value(options.seed) for v in model.variables}
    return importlib.import_module(module).TWIN(model, values, options, on)


def stepper(twin, data):
    """Return a callable: a twin's next step, on the first microbatch of each of the data's steps. Local."""
    numbers = itertools.count()

    def step():
        number = next(numbers)
        twin.step(data.microbatch(number, 0), data.starts_epoch(number))

    return step


def join_gloo(torch, comm: Communicator) -> None:
    """Make all ranks of the communicator torch's default process group, over gloo. Collective, once.

    They meet at rank 0, which keeps the store: groups of some of the ranks can be made later.
    """
    os.environ.setdefault("GLOO_SOCKET_IFNAME", CARD if on_cluster() else "lo")
    host, first, connect = address(0) if on_cluster() else "127.0.0.1", comm.rank == 0, torch.distributed.TCPStore
    store = connect(host, 0, comm.size, True, wait_for_workers=False) if first else None
    port = int(comm.share_text(str(store.port if first else 0))[0])
    torch.distributed.init_process_group("gloo", store=store or connect(host, port, comm.size, False), rank=comm.rank,
                                         world_size=comm.size)
    torch.distributed.barrier()
