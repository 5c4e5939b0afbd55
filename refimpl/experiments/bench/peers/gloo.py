"""PyTorch's process group over gloo, for peers: the ranks of a communicator, over the machines' cards."""

import os
import tempfile
from pathlib import Path

from refimpl.transport import Communicator


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
