"""Two ranks: rank 0 sends a tensor, rank 1 adds up its elements and sends the sum back, by each way in turns."""

import time

import numpy as np

from refimpl.experiments.bench.peers import grpc_tensors
from refimpl.experiments.bench.timing import take_turns
from refimpl.transport.channel.choice import WAYS
from refimpl.transport.channel.slots import TensorSlot

BLOCKS = 3  # of turns for each way, so that a disturbance of the machine affects all ways
WARM = 2
SHARE = 0.1
"""The quantile of the turns' times that is reported. Other programs of the machine delay most turns."""


class OverChannel:
    """A slot for the tensor, and one for the sum. Constructor and ``close`` are collective."""

    def __init__(self, comm, way: str, elements: int):
        self.channel = WAYS[way].open(comm, [TensorSlot("tensor", 0, 1, "float64", (elements,)),
                                             TensorSlot("sum", 1, 0, "float64", (1,))])

    def ask(self, tensor) -> float:
        """Return the sum that rank 1 forms."""
        self.channel.put_signal("tensor", tensor)
        found = float(self.channel.wait_signal("sum")[0])
        self.channel.release("sum")
        return found

    def answer(self, turns: int):
        """Add up so many tensors."""
        total = np.empty(1)
        for _ in range(turns):
            total[0] = self.channel.wait_signal("tensor").sum()
            self.channel.release("tensor")
            self.channel.put_signal("sum", total)

    def close(self):
        self.channel.close()


class OverMessages:
    """MPI's persistent messages."""

    def __init__(self, comm, way: str, elements: int):
        self.transport, there, back = comm.host_transport, [(1, np.empty(elements))], [(1, np.empty(1))]
        pairs = (there, [], [], back) if comm.rank == 0 else ([], [(0, there[0][1])], [(0, back[0][1])], [])
        self.tensor, self.total = there[0][1], back[0][1]
        self.first = self.transport.prepare(pairs[0], pairs[1], "a tensor")
        self.second = self.transport.prepare(pairs[2], pairs[3], "a sum", 1)

    def ask(self, tensor) -> float:
        """Return the sum that rank 1 forms."""
        self.tensor[:] = tensor
        self._pass(self.first)
        self._pass(self.second)
        return float(self.total[0])

    def answer(self, turns: int):
        """Add up so many tensors."""
        for _ in range(turns):
            self._pass(self.first)
            self.total[0] = self.tensor.sum()
            self._pass(self.second)

    def _pass(self, messages):
        messages.start()
        self.transport.wait_some([messages])

    def close(self):
        self.first.free()
        self.second.free()


def main(comm, ways: list[str], sizes: list[int], turns: dict[str, int], address: str) -> dict:
    """Return way -> seconds of each size, of the turn at SHARE. Collective.

    turns: size, as text -> of a block.  address: of rank 1's machine.
    """
    found: dict = {way: [] for way in ways}
    for size in sizes:
        blocks = take_turns(dict.fromkeys(ways), BLOCKS,
                            lambda way, _: _block(comm, way, size, turns[str(size)], address))
        for way, times in blocks.items():
            found[way].append(float(np.quantile(sum(times, []) or [0.0], SHARE)))
    return found


def _nixl(*arguments):
    from refimpl.experiments.bench.peers.nixl_tensors import Puts  # NIXL is seldom installed

    return Puts(*arguments)


def _block(comm, way, size, turns, address):
    make = {"MPI two-sided": OverMessages, "NIXL": _nixl, "gRPC": grpc_tensors.Calls,
            "gRPC stream": grpc_tensors.Stream}
    over = make.get(way, OverChannel)(comm, way if way in WAYS else address, size // 8)
    tensor, times = np.arange(size // 8, dtype=np.float64), []
    comm.meet("a block of turns")
    if comm.rank == 1:
        over.answer(WARM + turns)
    else:
        for turn in range(WARM + turns):
            begin = time.perf_counter()
            total = over.ask(tensor)
            times += [time.perf_counter() - begin] * (turn >= WARM)
            if total != tensor.sum():
                raise ValueError(f"{way}: the sum of {size} bytes is {total}, and not {tensor.sum()}")
    comm.meet("the end of a block")
    over.close()
    return times
