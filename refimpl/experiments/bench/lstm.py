"""Benchmark of the LSTM kernel: forward and backward over a sequence, against torch.nn.LSTM, one thread each."""

import numpy as np

from kernels.lstm import Workspace, lstm_backward, lstm_forward
from refimpl.experiments.bench.peers import import_torch
from refimpl.experiments.bench.timing import Row, race

SHAPES = {  # work -> time, streams, inputs, hidden, projection (0 for none)
    "lstm": (20, 64, 256, 512, 0),
    "lstm-projection": (20, 32, 128, 256, 128),
}


def run(seconds: float = 6.0, rounds: int = 7) -> list[Row]:
    """Time every shape; the caller has set the number of BLAS threads to one. Local."""
    rows, torch = [], import_torch()
    for work, shape in SHAPES.items():
        time, streams, inputs, hidden, projection = shape
        size = f"batch {streams}, {time} steps, {inputs} -> {hidden}" + (f" -> {projection}" if projection else "")
        peers = {} if torch is None else torch_peers(torch, *shape)
        rows += race(work, size, {"refimpl": ours(*shape)}, peers, seconds, rounds)
    return rows


def ours(time, streams, inputs, hidden, projection, dtype=np.float32):
    """Return a callable: forward, and backward to inputs and weights."""
    width = projection or hidden
    random = np.random.default_rng(0)

    def normal(*shape):
        return (0.05 * random.normal(size=shape)).astype(dtype)

    x, dh = normal(time, streams, inputs), normal(time, streams, width)
    kernel, bias = normal(inputs + width, 4 * hidden), normal(4 * hidden)
    weights = normal(hidden, width) if projection else None
    c0, h0 = np.zeros((streams, hidden), dtype), np.zeros((streams, width), dtype)
    workspace = Workspace()

    def step():
        _, tape = lstm_forward(x, kernel, bias, weights, c0, h0, workspace)
        return lstm_backward(dh, tape, kernel, weights)

    return step


def torch_peers(torch, time, streams, inputs, hidden, projection):
    """Return {name: callable} for the same work in PyTorch."""
    torch.manual_seed(0)
    lstm = torch.nn.LSTM(inputs, hidden, proj_size=projection)
    x = torch.randn(time, streams, inputs, requires_grad=True)
    dh = torch.randn(time, streams, projection or hidden)

    def step():
        lstm.zero_grad()
        x.grad = None
        lstm(x)[0].backward(dh)

    return {"torch.nn.LSTM": step}
