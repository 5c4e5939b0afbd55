"""NIXL as a peer on one machine: a put into registered memory, with a notification. Needs nixl, for instance nixl-cu12.

Both sides register their arrays once, so that Python code copies nothing while tensors are sent.
"""

import os

import numpy as np
from nixl._api import nixl_agent, nixl_agent_config

READY = b"written"
LOOKS = 20
"""After so many looks a rank offers its core to others."""


class Puts:
    """Puts a tensor, and its sum back. Constructor and ``close`` are collective over two ranks."""

    def __init__(self, comm, way: str, elements: int):
        self.tensor, self.total, self.peer = np.empty(elements), np.empty(1), f"rank {1 - comm.rank}"
        # without NIXL's progress thread, which would share the few cores with ours, NIXL is faster
        self.agent = nixl_agent(f"rank {comm.rank}", nixl_agent_config(enable_prog_thread=False, backends=["UCX"]))
        arrays = [self._where(self.tensor), self._where(self.total)]
        self.memory = self.agent.register_memory([(*where, "") for where in arrays], "DRAM")
        texts = comm.share_text(self.agent.get_agent_metadata().hex())
        self.agent.add_remote_agent(bytes.fromhex(texts[1 - comm.rank]))
        there = comm.gather_numbers([number for where in arrays for number in where], "NIXL's addresses")
        own, remote = ([tuple(map(int, numbers[3 * comm.rank:][:3]))] for numbers in there[[comm.rank, 1 - comm.rank]])
        self.transfer = self.agent.initialize_xfer("WRITE", self.agent.get_xfer_descs(own, "DRAM"),
                                                   self.agent.get_xfer_descs(remote, "DRAM"), self.peer, READY)
        comm.meet("NIXL's transfers")

    @staticmethod
    def _where(array):
        return array.ctypes.data, array.nbytes, 0

    def ask(self, tensor) -> float:
        """Return the sum that rank 1 forms."""
        self.tensor[:] = tensor
        self._put()
        self._wait()
        return float(self.total[0])

    def answer(self, turns: int):
        """Add up so many tensors."""
        for _ in range(turns):
            self._wait()
            self.total[0] = self.tensor.sum()
            self._put()

    def _put(self):
        self.state = self.agent.transfer(self.transfer, READY)
        self._until(self._is_through)
        if self.state != "DONE":
            raise ValueError(f"NIXL's put to {self.peer} ended as {self.state}")

    def _is_through(self):
        if self.state == "PROC":
            self.state = self.agent.check_xfer_state(self.transfer)
        return self.state != "PROC"

    def _wait(self):
        self._until(lambda: self.peer in self.agent.get_new_notifs())

    @staticmethod
    def _until(is_done):
        looks = 0
        while not is_done():
            looks += 1
            if looks % LOOKS == 0:
                os.sched_yield()  # the other side may need this core

    def close(self):
        self.agent.release_xfer_handle(self.transfer)
        self.agent.remove_remote_agent(self.peer)
        self.agent.deregister_memory(self.memory)
