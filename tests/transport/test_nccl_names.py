"""The stand-in of NCCL has no name that CuPy's has not, and the same numbers and arguments; where CuPy is installed."""

import importlib.util
import json
import mmap
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from refimpl.transport.device.choice import SHARING

STANDIN = str(Path(__file__).parents[1] / "device" / "standin")
LOOK = """
import inspect, json
from cupy.cuda import nccl, Stream, Event, get_current_stream, alloc_pinned_memory
from cupy.cuda.runtime import deviceGetPCIBusId
def arguments(method):
    try:
        return [name for name in inspect.signature(method).parameters if name != "self"]
    except ValueError:  # compiled: its first line of text says them
        text = (method.__doc__ or "").splitlines()[0].split("(", 1)[1].rsplit(")", 1)[0]
        return [one.split("=")[0].split()[-1] for one in text.split(",") if one.strip() != "self"]
communicator = nccl.NcclCommunicator
methods = ("send", "recv", "allReduce", "check_async_error", "abort", "destroy")
print(json.dumps({"numbers": {name: getattr(nccl, name) for name in sorted(dir(nccl)) if name.startswith("NCCL_")},
                  "names": [name for name in dir(nccl) if name[0] != "_"],
                  "arguments": {name: arguments(getattr(communicator, name)) for name in methods},
                  "events": [hasattr(Event, "done"), hasattr(Stream, "wait_event"), hasattr(Stream, "record")],
                  "identity": len(nccl.get_unique_id()) if nccl.available else 128, "version": nccl.get_version()}))
"""
OWN = {"fail", "give_up", "ctypes", "np", "os", "queues", "standin", "threading", "zlib"}


def _look(path):
    environment = {**os.environ, "PYTHONPATH": path}
    job = subprocess.run([sys.executable, "-c", LOOK], env=environment, capture_output=True, text=True)
    if job.returncode and path == STANDIN:
        pytest.fail(job.stderr)
    if job.returncode:
        pytest.skip(f"CuPy is not installed: {job.stderr.splitlines()[-1]}")
    return json.loads(job.stdout.splitlines()[-1])


def test_the_stand_in_speaks_as_cupy_does():
    ours, theirs = _look(STANDIN), _look("")
    assert set(ours["names"]) - OWN <= set(theirs["names"])
    assert ours["numbers"].items() <= theirs["numbers"].items()
    assert ours["events"] == theirs["events"] == [True] * 3
    assert ours["identity"] == theirs["identity"] == 128
    for name, arguments in theirs["arguments"].items():
        assert ours["arguments"][name] == arguments, name


@pytest.fixture
def nccls_folder():
    """Where NCCL's wheel lies: that of the extras cuda12 and cuda13, or the one that PyTorch brings."""
    package = importlib.util.find_spec("nvidia")
    found = [folder for place in (package.submodule_search_locations if package else ())
             for folder in Path(place).glob("nccl") if (folder / "include" / "nccl.h").exists()]
    if not found:
        pytest.skip("NCCL's wheel is not installed")
    return found[0]


def test_nccls_own_header_says_the_same_numbers(nccls_folder):
    """CuPy was built with an older NCCL than it finds: the numbers of types, sums and errors are still those."""
    header = (nccls_folder / "include" / "nccl.h").read_text()
    theirs = {name.lower(): int(value) for name, value in re.findall(r"\bnccl(\w+)\s*=\s*(\d+)\b", header)}
    ours = {name.removeprefix("NCCL_").lower(): value for name, value in _look(STANDIN)["numbers"].items()}
    assert len(ours) > 12 and {name: theirs.get(name) for name in ours} == ours
    assert (theirs["remoteerror"], theirs["inprogress"]) == (6, 7)
    assert "#define NCCL_UNIQUE_ID_BYTES 128" in header


def test_nccl_reads_what_it_is_told_where_ranks_share_a_gpu(nccls_folder):
    header = (nccls_folder / "include" / "nccl.h").read_text()
    version = tuple(int(re.search(rf"#define NCCL_{part} (\d+)", header)[1]) for part in ("MAJOR", "MINOR"))
    if version < (2, 30):
        pytest.skip(f"NCCL {version[0]}.{version[1]}, which PyTorch brings: several ranks a GPU need 2.30, see cuda13")
    with open(nccls_folder / "lib" / "libnccl.so.2", "rb") as file:
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as library:
            assert [name for name in SHARING if library.find(name.encode() + b"\0") < 0] == []
