"""One LSTM layer of the translation model: dropout on its input, then the kernel (Wu et al. 2016; Zaremba et al. 2014).
"""

from kernels.arrays import array_module
from kernels.lstm import lstm_backward, lstm_forward
from kernels.random import dropout, key_of
from models.variable import Uniform, Variable

LIMIT = 0.1
"""The limit of the uniform initial values of all weights, as in the reimplementation of GNMT."""


def layer_variables(name, inputs, units, dtype):
    """Return kernel (inputs + units, 4 units) and bias (4 units,): 4 units (inputs + units + 1) elements."""
    return [Variable(f"{name}/kernel", (inputs + units, 4 * units), initial=Uniform(LIMIT), dtype=dtype),
            Variable(f"{name}/bias", (4 * units,), decays=False, dtype=dtype)]


def layer_forward(name, dense, x, state, key, keep, workspace, lengths=None, attention=None):
    """Return (h, saved): x (time, sentences, inputs), h (time, sentences, units). state: (c, h) before the first word.

    lengths: of the sentences; None: results past an end do not matter.  attention: writes the last columns of x.
    """
    x, scale = dropout(x, key_of(key, "dropout", name), keep)
    if attention is not None and scale is not None:
        attention.dropout = scale[:, :, -attention.columns:]
    h, tape = lstm_forward(x, dense[f"{name}/kernel"], dense[f"{name}/bias"], None, *state, workspace, lengths,
                           attention)
    return h, (scale, tape)


def layer_backward(name, dense, saved, dh, gradients, last=None, initial=False):
    """Return (dx, (dc0, dh0)); add the gradients of the layer's variables to ``gradients``.

    last: the gradients with respect to the last c and h, or None.  initial: whether to compute dc0 and dh0.
    """
    scale, tape = saved
    dx, gradients[f"{name}/kernel"], gradients[f"{name}/bias"], _, *state = lstm_backward(
        dh, tape, dense[f"{name}/kernel"], None, initial, last)
    return dx if scale is None else dx * scale, tuple(state)


def no_state(x, units):
    """Return the state before a sentence: zeros (c, h), (sentences, units) each."""
    xp = array_module(x)
    return tuple(xp.zeros((x.shape[1], units), x.dtype) for _ in range(2))
