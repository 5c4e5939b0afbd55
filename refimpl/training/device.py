"""Where a rank computes: on the CPU with NumPy, or on one GPU with CuPy. And the errors if that is not possible.

The same lines run on both (docs/design.md, I6); only the array module differs. The bits of a CPU and a GPU differ, so
invariant I1 holds for each of them.
"""

import importlib
import os
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from refimpl.training.agreement import agree_on
from refimpl.transport import Aborted, CollectiveError, SilentPeer

REPEATABLE = {
    "CUBLAS_WORKSPACE_CONFIG": ":4096:8",  # else cuBLAS may sum in another order on another stream
    "NVIDIA_TF32_OVERRIDE": "0",  # products of float32 are products of float32
    "CUPY_TF32": "0",
}
"""Settings that libraries read when they are loaded. Without them a product may have other bits, or fewer digits."""

FEWER_DIGITS = "by which products of float32 are computed from numbers of fewer digits"
REFUSED = {
    "NVIDIA_TF32_OVERRIDE": FEWER_DIGITS,
    "CUPY_TF32": FEWER_DIGITS,
    "CUBLAS_EMULATE_SINGLE_PRECISION": FEWER_DIGITS,
    "CUBLAS_EMULATE_DOUBLE_PRECISION": "by which products of float64 are computed from numbers of fewer digits",
    "CUPY_ENABLE_UMP": "by which the host may read what the GPU has not written yet",
    "CUPY_CUDA_PER_THREAD_DEFAULT_STREAM": "which lets the thread that exchanges read what the one that computes has "
                                           "not written yet",
}
"""Switches that must be off, and why: otherwise a run would silently compute with fewer digits or in another order."""

RECORDED = ("CUPY_ACCELERATORS", "CUBLAS_WORKSPACE_CONFIG", "CUBLAS_EMULATION_STRATEGY", "NCCL_ALGO", "NCCL_PROTO")
"""Settings that choose an algorithm, and so the order of additions. A run records them, and ranks must have the same.
(Environment variables of CuPy and NCCL; cuBLAS: Results reproducibility.)
"""


@dataclass(frozen=True)
class Device:
    """Where this rank computes. kind: "cpu" or "cuda".  xp: numpy or cupy.  index: the GPU's number on its machine.

    facts: what its bits depend on, name -> JSON value; all ranks must have the same.
    why: if a GPU was wanted and there is none, the reason; else "".
    """

    kind: str
    xp: Any = field(repr=False)
    index: int | None = None
    facts: dict = field(default_factory=dict)
    why: str = ""

    def use(self):
        """Use this device from now on. Each thread of the rank that touches its arrays must call it. Local."""
        if self.index is not None:
            self.xp.cuda.Device(self.index).use()

    def synchronize(self):
        """Wait until the device has finished all work. Local."""
        if self.index is not None:
            self.xp.cuda.Device(self.index).synchronize()

    def told(self, wanted: str) -> str | None:
        """Return a line for the start of a training: which GPU, or why none is used; None if the CPU was wanted."""
        if self.kind == wanted == "cpu":
            return None
        return f"device: {self}" + (f", as not every rank finds a GPU: {self.why}" if self.kind == "cpu" else "")

    def to_json(self) -> dict:
        """Return {"device": kind, ...facts}, for config.json. Local."""
        return {"device": self.kind, **self.facts}

    def __str__(self):
        return self.kind if self.index is None else f"cuda ({self.facts['gpu']})"


CPU = Device("cpu", np)


def open_device(wanted: str, comm) -> Device:
    """Return this rank's device: the wanted one; for "auto" a GPU if every rank finds one. Collective.

    The ranks of a machine take its GPUs in turn, and share them if there are fewer GPUs than ranks.
    Raises CollectiveError on every rank, with what is missing, if "cuda" is wanted and a rank has no GPU.
    """
    agree_on(comm, {"device": wanted})
    if wanted == "cpu":
        return CPU
    place = comm.machine.index(comm.rank)
    if wanted == "cuda":
        return comm.together(lambda: find_gpu(place), (ValueError,))
    try:
        return comm.together(lambda: find_gpu(place), (ValueError,))
    except (SilentPeer, Aborted):
        raise
    except CollectiveError as problem:
        return replace(CPU, why=str(problem))


def find_gpu(place: int) -> Device:
    """Return the GPU of the machine's rank number ``place``, and make it the current one. Local.

    Raises ValueError, with the remedy, if something is missing.
    """
    for name, value in REPEATABLE.items():
        os.environ[name] = os.environ.get(name) or value
    for name, reason in REFUSED.items():
        if os.environ.get(name, "0") not in ("", "0"):
            raise ValueError(f"--device cuda: {name} is set, {reason}; unset it, or say --device cpu")
    cupy = _cupy()
    try:
        count = cupy.cuda.runtime.getDeviceCount()
    except Exception as problem:  # no driver, or one that is too old for the runtime
        raise ValueError(f"--device cuda: CuPy {cupy.__version__} finds no GPU ({problem}); install NVIDIA's driver, "
                         "one for this CUDA or later, see that nvidia-smi lists a GPU and CUDA_VISIBLE_DEVICES hides "
                         "none, or say --device cpu") from problem
    if not count:
        raise ValueError("--device cuda: this machine shows no GPU (is CUDA_VISIBLE_DEVICES empty?); say --device cpu")
    index = place % count
    try:
        cupy.cuda.Device(index).use()
        return Device("cuda", cupy, index, _facts(cupy, index))
    except Exception as problem:  # another program has it for itself, or it has failed
        raise ValueError(f"--device cuda: GPU {index} of this machine cannot be used ({problem}); see what nvidia-smi "
                         "says of it, choose others with CUDA_VISIBLE_DEVICES, or say --device cpu") from problem


def _cupy():
    """Return CuPy. Raises ValueError if it is missing or cannot be loaded."""
    try:
        return importlib.import_module("cupy")
    except ModuleNotFoundError as problem:
        raise ValueError("--device cuda needs CuPy, which is not installed: pip install -e '.[cuda12]' for CUDA 12, "
                         "'.[cuda13]' for CUDA 13 (see docs/gpu.md), or say --device cpu") from problem
    except Exception as problem:
        raise ValueError(f"--device cuda: CuPy is installed and cannot be loaded ({problem}); install one of the "
                         f"extras cuda12 and cuda13, not both, or say --device cpu") from problem


def _facts(cupy, index) -> dict:
    runtime = cupy.cuda.runtime
    name = runtime.getDeviceProperties(index)["name"]
    return {"gpu": name.decode() if isinstance(name, bytes) else str(name),
            "compute_capability": str(cupy.cuda.Device(index).compute_capability), "cupy": cupy.__version__,
            "cuda": runtime.runtimeGetVersion(),
            "settings": {name: os.environ[name] for name in RECORDED if name in os.environ}}


LESS = "Reduce --microbatch-size, with more --microbatches"
"""The remedy if a step needs too much memory."""


@contextmanager
def memory_for(what: str, remedy: str):
    """If the block runs out of memory, raise ValueError with what needed it and what to reduce. Local."""
    try:
        yield
    except MemoryError as problem:  # CuPy's own error is one
        raise ValueError(f"out of memory for {what}: {problem} {remedy}") from problem
