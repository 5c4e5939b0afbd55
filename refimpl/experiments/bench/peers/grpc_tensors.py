"""gRPC for tensors: raw bytes, messages without limit, a call for each tensor or one stream. It needs grpcio.

Rank 1 serves, rank 0 calls.
"""

import threading
from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue

import grpc
import numpy as np

UNLIMITED = [("grpc.max_send_message_length", -1), ("grpc.max_receive_message_length", -1)]


class Calls:
    """A call for each tensor. Constructor and ``close`` are collective over two ranks. address: of rank 1's machine."""

    def __init__(self, comm, address: str, elements: int):
        self.left, self.done, self.server = 0, threading.Event(), None
        port = 0
        if comm.rank == 1:
            self.server = grpc.server(ThreadPoolExecutor(1), options=UNLIMITED)
            self.server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler("tensors", {
                "call": grpc.unary_unary_rpc_method_handler(lambda message, _: self.add_up(message)),
                "stream": grpc.stream_stream_rpc_method_handler(lambda messages, _: map(self.add_up, messages))})])
            port = self.server.add_insecure_port(f"{address}:0")
            self.server.start()
        port = int(comm.gather_numbers([port], "gRPC's port")[1, 0])
        if comm.rank == 0:
            self.channel = grpc.insecure_channel(f"{address}:{port}", options=UNLIMITED)
            self.begin()

    def begin(self):
        """Prepare what ``ask`` needs. Local, on rank 0."""
        self.call = self.channel.unary_unary("/tensors/call")

    def ask(self, tensor) -> float:
        """Return the sum that rank 1 forms."""
        return float(np.frombuffer(self.call(tensor.tobytes(), wait_for_ready=True))[0])

    def add_up(self, message: bytes) -> bytes:
        """Return a tensor's sum; in a thread of gRPC's."""
        total = np.frombuffer(message).sum()
        self.left -= 1
        if self.left == 0:
            self.done.set()
        return total.tobytes()

    def answer(self, turns: int):
        """Let gRPC's threads add up so many tensors."""
        self.left += turns
        if self.left:
            self.done.wait()

    def close(self):
        if self.server is not None:
            self.server.stop(None).wait()
        else:
            self.end()
            self.channel.close()

    def end(self):
        """Undo ``begin``."""


class Stream(Calls):
    """A stream of tensors to rank 1, and a stream of sums back."""

    def begin(self):
        self.queue: SimpleQueue = SimpleQueue()
        self.sums = self.channel.stream_stream("/tensors/stream")(iter(self.queue.get, None), wait_for_ready=True)

    def ask(self, tensor) -> float:
        self.queue.put(tensor.tobytes())
        return float(np.frombuffer(next(self.sums))[0])

    def end(self):
        self.queue.put(None)
        self.sums.cancel()
