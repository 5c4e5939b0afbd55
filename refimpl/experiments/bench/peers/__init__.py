"""The libraries that benchmarks race against, where they are installed, and our models as written in them."""

import importlib
import importlib.util
import itertools
import os
import sys
import tempfile
import warnings
from pathlib import Path

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


def torch_twin(model_name: str, model, options, **where):
    """Return a model of the registry in PyTorch, ready to train from the values that ours begins with. Local.

    It is ``Twin`` of ``torch_NAME`` beside this file, None if there is none: step(batch, starts_epoch) does a training
    step on a microbatch; computation(batch) returns a callable, its forward and backward pass alone.
    options: of our trainer, the optimizer's.  where: arguments of Twin.
    """
    module = f"{__name__}.torch_{model_name}"
    if importlib.util.find_spec(module) is None:
        return None
    values = {v.name: v.initial_value(options.seed) for v in model.variables}
    return importlib.import_module(module).Twin(model, values, options, **where)


def stepper(twin, data, microbatch: int = 0):
    """Return a callable: a twin's next step, on one microbatch of each of the data's steps. Local."""
    numbers = itertools.count()

    def step():
        number = next(numbers)
        twin.step(data.microbatch(number, microbatch), data.starts_epoch(number))

    return step


def join_gloo(torch, comm: Communicator) -> None:
    """Make all ranks of the communicator torch's default process group, over gloo. Collective, once.

    They meet in a file: machines of the emulated cluster have one file system. Afterwards it is gone.
    """
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "eth0" if len(comm.machines) > 1 else "lo")
    with tempfile.TemporaryDirectory(prefix="gloo") as own:
        meeting = Path(comm.share_text(own)[0])
        torch.distributed.init_process_group("gloo", init_method=f"file://{meeting}/store", rank=comm.rank,
                                             world_size=comm.size)
        torch.distributed.barrier()  # nobody removes the folder before all have met
