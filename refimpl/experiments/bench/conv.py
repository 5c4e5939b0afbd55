"""Bench: 3x3 convolution, forward and both gradients, against PyTorch on one thread."""

import numpy as np

from kernels.conv import convolve, convolve_backward, definition
from kernels.random import key_of, uniform
from refimpl.experiments.bench.peers import import_torch
from refimpl.experiments.bench.timing import Row, race

N, CHANNELS, SIDE = 32, 64, 32


def arrays():
    """Return images, kernel and gradient, float32, layout (n, height, width, channels) and (3, 3, inputs, outputs)."""
    def draw(name, *shape):
        return (2 * uniform(key_of("bench", name), int(np.prod(shape))) - 1).astype(np.float32).reshape(shape)

    return draw("x", N, SIDE, SIDE, CHANNELS), draw("w", 3, 3, CHANNELS, CHANNELS), draw("g", N, SIDE, SIDE, CHANNELS)


def torch_peers(x, weight, grad) -> dict:
    """Return the same work in PyTorch, in its two memory layouts: name -> callable; {} if it is not installed."""
    torch = import_torch()
    if torch is None:
        return {}

    def work(layout):
        images, kernel, output = (
            torch.from_numpy(a).permute(*axes).contiguous(memory_format=layout)
            for a, axes in ((x, (0, 3, 1, 2)), (weight, (3, 2, 0, 1)), (grad, (0, 3, 1, 2)))
        )
        inputs = images.requires_grad_(), kernel.requires_grad_()
        return lambda: torch.autograd.grad(torch.nn.functional.conv2d(*inputs, padding=1), inputs, output)

    return {"torch": work(torch.contiguous_format), "torch channels_last": work(torch.channels_last)}


def run(seconds: float = 8.0, rounds: int = 7) -> list[Row]:
    """Time forward + backward of the convolution; the caller has set the number of BLAS threads to one. Local."""
    x, weight, grad = arrays()

    def fast():
        return convolve(x, weight), convolve_backward(grad, x, weight)

    def plain():
        return definition.convolve(x, weight, 1, 1), definition.convolve_backward(grad, x, weight, 1, 1)

    size = f"{N}x{CHANNELS}x{SIDE}x{SIDE} 3x3 float32"
    return race("conv", size, {"refimpl": fast, "definition": plain}, torch_peers(x, weight, grad), seconds, rounds)
