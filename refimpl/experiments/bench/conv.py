"""Bench: 3x3 convolution, forward and both gradients, against PyTorch on one thread."""

import numpy as np

from kernels.conv import convolve, convolve_backward, definition
from kernels.random import key_of, uniform
from refimpl.experiments.bench.timing import Row, race

N, CHANNELS, SIDE = 32, 64, 32


def arrays():
    """Return images, kernel and gradient, float32, layout (n, height, width, channels) and (3, 3, inputs, outputs)."""
    def draw(name, *shape):
        return (2 * uniform(key_of("bench", name), int(np.prod(shape))) - 1).astype(np.float32).reshape(shape)

    return draw("x", N, SIDE, SIDE, CHANNELS), draw("w", 3, 3, CHANNELS, CHANNELS), draw("g", N, SIDE, SIDE, CHANNELS)


def torch_peers(x, weight, grad) -> dict:
    """Return the same work in PyTorch, in its two memory layouts: name -> callable; {} if it is not installed."""
    try:
        import torch
    except ImportError:
        return {}
    torch.set_num_threads(1)

    def work(layout):
        images, kernel, output = (torch.from_numpy(a).permute(*axes).contiguous(memory_format=layout) for a, axes in
                                  ((x, (0, 3, 1, 2)), (weight, (3, 2, 0, 1)), (grad, (0, 3, 1, 2))))
        images.requires_grad_(), kernel.requires_grad_()
        return lambda: torch.autograd.grad(torch.nn.functional.conv2d(images, kernel, padding=1), (images, kernel), output)

    return {"torch": work(torch.contiguous_format), "torch channels_last": work(torch.channels_last)}


def rows(seconds: float = 8.0, plain: bool = False) -> list[Row]:
    """Time forward + backward of the convolution; ``plain`` adds the definition. Local."""
    x, weight, grad = arrays()
    ours = {"refimpl": lambda: (convolve(x, weight), convolve_backward(grad, x, weight))}
    if plain:
        ours["definition"] = lambda: (definition.convolve(x, weight, 1, 1),
                                      definition.convolve_backward(grad, x, weight, 1, 1))
    return race("conv", f"{N}x{CHANNELS}x{SIDE}x{SIDE} 3x3 float32", ours, torch_peers(x, weight, grad), seconds)
