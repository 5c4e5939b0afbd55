"""The shapes of a convolution: checks, and the shape of the result."""


def output_shape(x, weight, stride, padding):
    """Return (n, height, width, outputs) of the convolution of ``x`` with ``weight``. Local.

    Along an axis the kernel is applied at (length + 2 padding - kernel) // stride + 1 places.
    """
    height, width = ((length + 2 * padding - weight.shape[0]) // stride + 1 for length in x.shape[1:3])
    return len(x), height, width, weight.shape[3]


def check_convolution(x, weight, stride, padding, grad=None):
    """Raise ValueError if shapes, dtypes, stride or padding do not match; the error names the wrong one. Local."""
    if x.ndim != 4 or weight.ndim != 4:
        raise ValueError(f"convolution takes images (n, height, width, inputs) and a kernel (k, k, inputs, outputs), "
                         f"not {x.shape} and {weight.shape}")
    if weight.shape[0] != weight.shape[1]:
        raise ValueError(f"kernel of shape {weight.shape} is not square: pad its first two axes with zeros")
    if x.shape[3] != weight.shape[2]:
        raise ValueError(f"images have {x.shape[3]} channels, the kernel takes {weight.shape[2]}")
    arrays = [x, weight] if grad is None else [x, weight, grad]
    if x.dtype.kind != "f" or len({a.dtype for a in arrays}) > 1:
        raise ValueError(f"convolution of dtypes {[str(a.dtype) for a in arrays]}: convert all to one float dtype")
    if stride < 1 or padding < 0:
        raise ValueError(f"stride {stride} and padding {padding}: a stride is at least 1, a padding at least 0")
    shape = output_shape(x, weight, stride, padding)
    if min(shape[1:3]) < 1:
        raise ValueError(f"images of shape {x.shape} with padding {padding} are smaller than the kernel {weight.shape}")
    if grad is not None and grad.shape != shape:
        raise ValueError(f"gradient has shape {grad.shape}, the convolution's result has {shape}")
