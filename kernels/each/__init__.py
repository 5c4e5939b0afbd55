"""Copy, add, scale or align each of several arrays; on a GPU in few launches."""

import numpy as np

from kernels.arrays import ALIGNMENT, array_module, is_float_cuda
from kernels.each import cuda


def copy_each(targets, sources):
    """Write each source to its target. targets, sources: lists of arrays of equal shapes. Local."""
    _each(targets, sources, cuda.copy_elements, lambda target, source: target.__setitem__(..., source))


def add_each(targets, sources):
    """Add each source to its target. targets, sources: lists of arrays of equal shapes. Local."""
    _each(targets, sources, cuda.add_elements, lambda target, source: target.__iadd__(source))


def scaled_each(arrays, factor) -> list:
    """Return new arrays: each array times the factor, which is first rounded to the array's dtype. Local."""
    if not all(is_float_cuda(array) and array.flags.c_contiguous for array in arrays):
        return [array * array.dtype.type(factor) for array in arrays]
    targets = [array_module(array).empty_like(array) for array in arrays]
    cuda.scale_elements([(array.size, array, target, array.dtype.type(factor))
                         for array, target in zip(arrays, targets)])
    return targets


def aligned_each(arrays: dict) -> dict:
    """Return the arrays ``aligned`` (see ``kernels.arrays``), with all copies in one allocation. Local."""
    moved = {name: array for name, array in arrays.items()
             if not isinstance(array, np.ndarray) and (array.data.ptr - array.data.mem.ptr) % ALIGNMENT}
    if not moved:
        return dict(arrays)
    sizes = [-(-array.nbytes // ALIGNMENT) * ALIGNMENT for array in moved.values()]
    space, copies, first = array_module(*moved.values()).empty(sum(sizes), np.uint8), {}, 0
    for (name, array), size in zip(moved.items(), sizes):
        copies[name] = space[first:first + array.nbytes].view(array.dtype).reshape(array.shape)
        first += size
    copy_each(list(copies.values()), list(moved.values()))
    return arrays | copies


def _each(targets, sources, kernel, do):
    quick = []
    for target, source in zip(targets, sources, strict=True):
        if is_float_cuda(target, source) and target.flags.c_contiguous and source.flags.c_contiguous and \
                target.dtype == source.dtype and target.shape == source.shape:
            quick.append((target.size, source, target))
        else:
            do(target, source)
    if quick:
        kernel(quick)
