"""Other libraries, if they are installed, and our models written in them, for benchmarks."""

import importlib
import importlib.util
import os
import sys
import warnings

from refimpl.experiments.cluster.card import on_cluster
from refimpl.experiments.cluster.description import CARD, address
from refimpl.transport import Communicator


def import_torch():
    """Return torch, set to one thread; if it is not installed, print a note on stderr and return None. Local."""
    try:
        import torch
    except ImportError:
        print("peer left out: torch is not installed (pip install 'refimpl[torch]')", file=sys.stderr)
        return None
    torch.set_num_threads(1)
    torch.sparse.check_sparse_tensor_invariants.disable()  # they cost time; saying so here keeps torch quiet
    warnings.filterwarnings("ignore", "LSTM with projections is not supported with oneDNN")  # so it says
    return torch


def peer_work(workload):
    """Return how PyTorch trains a workload of ours, a ``torch_replica.Work``. Local.

    It is made by ``work`` of ``torch_MODEL`` beside this file; None if there is no such file.
    """
    module = f"{__name__}.torch_{workload.model}"
    return importlib.import_module(module).work(workload) if importlib.util.find_spec(module) else None


def join_gloo(comm: Communicator):
    """Make all ranks PyTorch's default process group, over gloo, and return torch. Collective, once.

    Without PyTorch it does nothing and returns None. Rank 0 keeps the store, so that groups of some of the ranks can be
    made later.
    """
    if (torch := import_torch()) is None:
        return None
    os.environ.setdefault("GLOO_SOCKET_IFNAME", CARD if on_cluster() else "lo")
    host, first, connect = address(0) if on_cluster() else "127.0.0.1", comm.rank == 0, torch.distributed.TCPStore
    store = connect(host, 0, comm.size, True, wait_for_workers=False) if first else None
    port = int(comm.share_text(str(store.port if first else 0))[0])
    torch.distributed.init_process_group("gloo", store=store or connect(host, port, comm.size, False), rank=comm.rank,
                                         world_size=comm.size)
    torch.distributed.barrier()
    return torch
