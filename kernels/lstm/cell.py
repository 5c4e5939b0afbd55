"""The elementwise part of the LSTM cell and the layouts around it, picked by the type of the arguments."""

from kernels.arrays import is_numpy
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
