"""The elementwise part of the LSTM cell, picked by the type of its arguments."""

from kernels.arrays import is_numpy
from kernels.lstm import definition, fast


def cell_forward(gates, c, activations, c_next, tanh_c, m):
    """Apply the cell to pre-activations (see ``definition.cell_forward``). Local."""
    version = fast if is_numpy(gates, c) else definition
    version.cell_forward(gates, c, activations, c_next, tanh_c, m)


def cell_backward(dm, dc, activations, c, tanh_c, dgates):
    """Apply the cell's transpose (see ``definition.cell_backward``). Local."""
    version = fast if is_numpy(dm, dc) else definition
    version.cell_backward(dm, dc, activations, c, tanh_c, dgates)
