"""The decoder: stacked LSTMs, each of which reads the attention's context (as in "gnmt_v2").

    layer 0 reads [word, context of the previous step];  layer i reads [h of the layer below, context of this step]
"""

from kernels.arrays import array_module
from models.nmt.attention import Attention
from models.nmt.layers import layer_backward, layer_forward, layer_variables


class Decoder:
    """The decoder's layers, without values. Layer i begins with the final state of the encoder's layer i."""

    def __init__(self, units, layers, workspaces):
        self.units, self.workspaces = units, workspaces
        self.layers = [f"decoder/{n}" for n in range(layers)]

    def variables(self, dtype):
        """Return layers times L(2u) elements."""
        return [v for name in self.layers for v in layer_variables(name, 2 * self.units, self.units, dtype)]

    def forward(self, dense, x, memory, states, lengths, key, keep):
        """Return (h, saved): x, h (time, sentences, units); memory, states, lengths: see ``Encoder.forward``."""
        xp, attention = array_module(x), Attention(dense, memory, lengths, len(x))
        lowest, saved = self.layers[0], {"attention": attention}
        inputs = xp.concatenate([x, xp.zeros(x.shape, x.dtype)], axis=2)
        h, saved[lowest] = layer_forward(lowest, dense, inputs, states[0], key, keep, self.workspaces[lowest],
                                         attention=attention)
        saved["h"] = h
        for name, state in zip(self.layers[1:], states[1:]):
            inputs = xp.concatenate([h, attention.contexts], axis=2)
            h, saved[name] = layer_forward(name, dense, inputs, state, key, keep, self.workspaces[name])
        return h, saved

    def step(self, dense, x, context, states, attention):
        """Return (h, states, context) after one word of each sentence: x, h (sentences, units). Nothing is dropped.

        context, states: after the previous word.  attention: of memory, with ``time`` 1.
        """
        xp, found, h = array_module(x), [], x
        for name, state in zip(self.layers, states):
            inputs = xp.concatenate([h, context], axis=1)[None]
            run, (_, tape) = layer_forward(name, dense, inputs, state, 0, 1.0, self.workspaces[name])
            h = run[0]
            found.append(tape.last_state())
            if name == self.layers[0]:
                attention.forward(0, h)
                context = attention.contexts[0].copy()
        return h, found, context

    def backward(self, dense, saved, dh, gradients, ready):
        """Return (dx, dmemory, dstates); add each layer's gradients to ``gradients`` as soon as they are ready."""
        units, attention, dstates = self.units, saved["attention"], []
        attention.dcontexts = array_module(dh).zeros(attention.contexts.shape, dh.dtype)
        for name in reversed(self.layers[1:]):
            dx, dstate = layer_backward(name, dense, saved[name], dh, gradients, initial=True)
            dh = dx[:, :, :units]
            attention.dcontexts += dx[:, :, units:]
            dstates.append(dstate)
            ready(gradients)
        lowest = self.layers[0]
        dx, dstate = layer_backward(lowest, dense, saved[lowest], dh, gradients, initial=True)
        dstates.append(dstate)
        dmemory = attention.finish(saved["h"], gradients)
        ready(gradients)
        return dx[:, :, :units], dmemory, dstates[::-1]
