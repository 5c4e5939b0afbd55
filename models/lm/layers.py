"""One LSTM layer of the language model: dropout around the kernel, and the state that it carries between windows."""

from kernels.arrays import array_module
from kernels.lstm import lstm_backward, lstm_forward
from kernels.random import dropout, key_of


def layer_forward(layer, dense, x, batch, keep, first, widths, workspace):
    """Return (output, saved); read and replace the layer's batch.state. x, output: (time, streams, width).

    saved: dropout factors of input and output (None without dropout) and the LSTM's tape.
    Dropout applies to the first layer's input and every layer's output, never to the state (Zaremba et al. 2014).
    """
    input_scale = None
    if first:
        x, input_scale = dropout(x, key_of(batch.key, "dropout", "input"), keep)
    c0, h0 = carried_state(batch, layer, x, widths)
    projection = dense.get(f"{layer}/projection")
    h, tape = lstm_forward(x, dense[f"{layer}/kernel"], dense[f"{layer}/bias"], projection, c0, h0, workspace)
    batch.state[f"{layer}/c"], batch.state[f"{layer}/h"] = tape.last_state()
    output, output_scale = dropout(h, key_of(batch.key, "dropout", layer), keep)
    return output, (input_scale, output_scale, tape)


def layer_backward(layer, dense, saved, dh, gradients):
    """Return the gradient with respect to the layer's input; add the layer's variables to ``gradients``."""
    input_scale, output_scale, tape = saved
    if output_scale is not None:
        dh = dh * output_scale
    dx, gradients[f"{layer}/kernel"], gradients[f"{layer}/bias"], dprojection, _, _ = lstm_backward(
        dh, tape, dense[f"{layer}/kernel"], dense.get(f"{layer}/projection"))
    if dprojection is not None:
        gradients[f"{layer}/projection"] = dprojection
    return dx if input_scale is None else dx * input_scale


def carried_state(batch, layer, x, widths):
    """Return the layer's (c, h) of the previous window from batch.state, or zeros if it has none."""
    xp, state = array_module(x), []
    for name, width in zip(("c", "h"), widths):
        shape = (x.shape[1], width)
        value = batch.state.get(f"{layer}/{name}")
        if value is not None and value.shape != shape:
            raise ValueError(f"batch.state[{layer + '/' + name!r}] has shape {value.shape}, expected {shape}: "
                             "the number of streams must not change from window to window")
        state.append(xp.zeros(shape, x.dtype) if value is None else value)
    return state
