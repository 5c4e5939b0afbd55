"""What the stand-in remembers: transfers, launches, and the calls of streams and events. Not a part of CuPy."""

import contextlib
import sys
import threading
from collections import Counter
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Transfer:
    """One crossing of the bus. kind: "to_device", "to_host", or "number": the host waits for a number, or a length."""

    kind: str
    nbytes: int
    what: str
    where: str = ""

    def __str__(self):
        return f"{self.kind}: {self.what}, {self.nbytes} bytes, {self.where}"


@dataclass
class Count:
    """The transfers of a while. Threads share it."""

    all: list[Transfer] = field(default_factory=list)

    def of(self, kind: str) -> list[Transfer]:
        """Return the transfers of a kind."""
        return [one for one in self.all if one.kind == kind]

    def nbytes(self, kind: str) -> int:
        """Return how many bytes crossed."""
        return sum(one.nbytes for one in self.of(kind))

    def clear(self):
        self.all.clear()


@dataclass(frozen=True)
class Launch:
    """One thing that the host asks a GPU to do. kind: "product" (cuBLAS), "kernel" (the project's own), "elementwise",
    "reduction", "copy", "fill", "index", "sort", "to_device" or "to_host".
    """

    kind: str
    name: str
    where: str = ""


@dataclass
class Launches:
    """What a GPU was asked for in a while."""

    all: list[Launch] = field(default_factory=list)

    def by_kind(self) -> dict[str, int]:
        """Return kind -> how many."""
        return dict(sorted(Counter(one.kind for one in self.all).items()))


transfers = Count()
calls: list[tuple] = []
_open: list[Count] = []
_watching: list[Launches] = []
_lock = threading.Lock()


@contextlib.contextmanager
def _while(one, among):
    """Yield ``one``, which is among those that are told of what happens inside the block."""
    with _lock:
        among.append(one)
    try:
        yield one
    finally:
        with _lock:
            among.remove(one)


def launching():
    """Yield the Launches of what happens inside the block."""
    return _while(Launches(), _watching)


def counting():
    """Yield a Count of what crosses the bus inside the block."""
    return _while(Count(), _open)


def launched(kind: str, name: str):
    """Remember a launch, if anybody watches. Called by the stand-in."""
    if _watching:
        one = Launch(kind, name, where())
        for launches in _watching:
            launches.all.append(one)


def crossed(kind: str, nbytes: int, what: str):
    """Remember a transfer. Called by the stand-in."""
    if len(transfers.all) > 100_000 and not _open:
        transfers.clear()
    if kind != "number":
        launched(kind, what)
    one = Transfer(kind, int(nbytes), what, where())
    transfers.all.append(one)
    for count in _open:
        count.all.append(one)


def where() -> str:
    """The line of the program that asked: the first frame outside the stand-in, the launcher and NumPy."""
    frame = sys._getframe(1)
    while frame is not None:
        name = frame.f_code.co_filename
        if not any(part in name for part in ("/standin/", "/numpy/", "/kernels/cuda/")):
            return f"{'/'.join(name.split('/')[-2:])}:{frame.f_lineno}"
        frame = frame.f_back
    return ""


def groups() -> list[list[tuple[str, int, int]]]:
    """Return what NCCL was asked for in ``calls``, group by group: (send or recv, bytes, peer)."""
    found: list[list] = []
    for name, *rest in calls:
        if name == "nccl.groupStart":
            found.append([])
        elif name in ("nccl.send", "nccl.recv"):
            found[-1].append((name.removeprefix("nccl."), *rest[:2]))
    return found


def called(*call):
    """Remember a call of a stream or event."""
    if len(calls) > 100_000:
        del calls[:50_000]
    calls.append(call)
