"""Choose how device arrays travel between ranks: by NCCL, or through the host.

Each rank tells all others its GPU and its version of NCCL. So all ranks make the same choice.
"""

import os
import socket
from collections import Counter
from dataclasses import dataclass, field
from typing import NamedTuple

from refimpl.words import ranks_named

TRANSPORTS = ("auto", "nccl", "staged")
SEVERAL_RANKS_A_GPU = 23000  # the first NCCL that allows them
NCCL_NEEDED = 20700  # the first with send and receive

SHARING = {"NCCL_MULTI_RANK_GPU_ENABLE": "1", "NCCL_NVLS_ENABLE": "0", "NCCL_MAX_CTAS": "2"}
"""The environment that NCCL needs at its start if ranks share a GPU. Their kernels wait for each other, so all must
fit on the GPU together. Multicast between GPUs fails for two ranks of one GPU. Variables that are set do not change."""


class RankGpu(NamedTuple):
    """A rank's GPU. gpu: machine and bus address.  nccl: the version of NCCL, 0 for none."""

    gpu: str
    nccl: int


@dataclass(frozen=True)
class TransportChoice:
    """How device arrays travel. name: "nccl" or "staged".  reason: a sentence for users, "" for one rank.

    environment: variables to set before NCCL starts.
    """

    name: str
    reason: str
    environment: dict = field(default_factory=dict)


def choose_transport(gpus: list[RankGpu], wanted: str = "auto") -> TransportChoice:
    """Choose how device arrays travel between ranks with these GPUs. wanted: one of TRANSPORTS. Local.

    Raises ValueError, with the remedy, for an unknown transport, or if NCCL is wanted and does not work.
    """
    if wanted not in TRANSPORTS:
        raise ValueError(f"no transport {wanted!r}; there are {', '.join(TRANSPORTS)}")
    if len(gpus) == 1:
        return TransportChoice("staged", "")  # nothing travels
    if wanted == "staged":
        return TransportChoice("staged", "device arrays travel through host memory and MPI, as asked for")
    crowded = {gpu: count for gpu, count in Counter(rank.gpu for rank in gpus).items() if count > 1}
    problem = _why_not_nccl(gpus, crowded)
    if problem and wanted == "nccl":
        raise ValueError(f"--transport nccl: {problem}")
    if problem:
        return TransportChoice("staged", f"device arrays travel through host memory and MPI: {problem}")
    version = version_name(gpus[0].nccl)
    if not crowded:
        return TransportChoice("nccl", f"device arrays travel by NCCL {version}, each rank with a GPU of its own")
    most = max(crowded.values())
    told = " ".join(f"{name}={value}" for name, value in SHARING.items())
    reason = (f"device arrays travel by NCCL {version}, up to {most} ranks sharing a GPU ({told}), which is good for "
              "trying out, not for speed")
    return TransportChoice("nccl", reason, dict(SHARING))


def _why_not_nccl(gpus, crowded) -> str:
    """Return why NCCL cannot be used, with the remedy; "" if it can."""
    versions = [rank.nccl for rank in gpus]
    without = [rank for rank, version in enumerate(versions) if version < NCCL_NEEDED]
    if without:
        return (f"CuPy finds no NCCL on {ranks_named(without)}: install the extra cuda12 "
                "or cuda13 (pip install nvidia-nccl-cu12, nvidia-nccl-cu13)")
    if len(set(versions)) > 1:
        said = ", ".join(f"{version_name(version)} on rank {rank}" for rank, version in enumerate(versions))
        return f"the ranks have different versions of NCCL ({said}): install the same everywhere"
    if crowded and versions[0] < SEVERAL_RANKS_A_GPU:
        gpu, count = next(iter(crowded.items()))
        return (f"{count} ranks share the GPU {gpu}, which NCCL {version_name(versions[0])} cannot: give each rank its "
                "own, or install NCCL 2.30 or later")
    return ""


def version_name(version: int) -> str:
    """Return an NCCL version as text: 23203 is 2.32.3. Local."""
    return f"{version // 10000}.{version // 100 % 100}.{version % 100}"


def open_transport(comm, device: int, wanted: str = "auto"):
    """Return the transport of arrays on GPU number ``device``. Collective over ``comm``.

    wanted: one of TRANSPORTS; "auto" chooses NCCL if it can be used. The transport's ``reason`` says what was chosen,
    and why. Raises CollectiveError on all ranks if the wanted transport cannot be used.
    """
    from refimpl.transport.device.staged import Staged  # these need CuPy

    gpus = _share_gpus(comm, device)
    choice = comm.together(lambda: choose_transport(gpus, wanted), (ValueError,))
    if choice.name == "staged":
        return Staged(comm.host_transport, device, choice.reason)
    from refimpl.transport.device.nccl import Nccl

    for name, value in choice.environment.items():
        os.environ.setdefault(name, value)
    return Nccl.open(comm, device, choice.reason)


def _share_gpus(comm, device) -> list[RankGpu]:
    """Return every rank's RankGpu. Collective."""
    import cupy

    def look():
        from cupy.cuda import nccl

        gpu = cupy.cuda.runtime.deviceGetPCIBusId(device)
        return RankGpu(f"{gpu} of {socket.gethostname()}", nccl.get_version() if nccl.available else 0)

    mine = comm.together(look)
    texts = comm.share_text(f"{mine.nccl} {mine.gpu}")
    return [RankGpu(gpu, int(version)) for version, gpu in (text.split(" ", 1) for text in texts)]
