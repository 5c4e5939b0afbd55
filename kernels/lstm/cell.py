"""The elementwise part of the LSTM cell and the layouts around it, picked by the type of the arguments."""

from kernels.arrays import array_module, is_numpy
from kernels.lstm import definition, fast


def cell_forward(gates, bias, c, c_next, tanh_c, m):
    """Apply the cell: gates become activations (see ``definition.cell_forward``). Local."""
    version = fast if is_numpy(gates, c) else definition
    version.cell_forward(gates, bias, c, c_next, tanh_c, m)


def cell_backward(dm, dc, activations, c, tanh_c, dgates):
    """Apply the cell's transpose (see ``definition.cell_backward``). Local."""
    version = fast if is_numpy(dm, dc) else definition
    version.cell_backward(dm, dc, activations, c, tanh_c, dgates)


def transpose(matrix, out):
    """Write ``matrix.T`` to ``out``; both are matrices with any strides. Local."""
    if is_numpy(matrix, out):
        fast.transpose(matrix, out)
    else:
        out[:] = matrix.T


def left_factor(matrix, space):
    """Return ``matrix.T`` for products with it on the left. Local.

    BLAS reads a copy, made in ``space()``, twice as fast as a transposed view; to cuBLAS they are the same.
    """
    if not is_numpy(matrix):
        return matrix.T
    copy = space()
    transpose(matrix, copy)
    return copy


def transposed_product(left, right, space, out):
    """Write ``(left @ right).T`` to ``out``. Local.

    BLAS is faster with both factors as they lie in memory: the result, made in ``space()``, is turned over, which costs
    less than it gains.
    """
    if is_numpy(left, right):
        transpose(array_module(left).matmul(left, right, out=space()), out)
    else:
        array_module(left).matmul(right.T, left.T, out=out)
