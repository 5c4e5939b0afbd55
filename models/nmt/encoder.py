"""The encoder: one bidirectional layer, then stacked LSTMs. The decoder starts from its final states.

    layer 0:  h = [forward LSTM of x, backward LSTM of x];  layer i:  h = LSTM of the h below
    state 0 is that of the backward direction, state i that of layer i
"""

import numpy as np

from kernels.arrays import array_module
from models.nmt.layers import layer_backward, layer_forward, layer_variables, no_state


class Encoder:
    """The encoder's layers, without values. layers: at least 2.  Both directions of layer 0 have ``units`` each."""

    def __init__(self, units, layers, workspaces):
        self.units, self.workspaces = units, workspaces
        self.directions = ("encoder/forward", "encoder/backward")
        self.upper = [f"encoder/{n}" for n in range(1, layers)]

    def variables(self, dtype):
        """Return 2 L(u) + L(2u) + (layers - 2) L(u) elements, L(i) = 4u (i + u + 1)."""
        units, found = self.units, []
        for name in self.directions:
            found += layer_variables(name, units, units, dtype)
        for name in self.upper:
            found += layer_variables(name, 2 * units if name == self.upper[0] else units, units, dtype)
        return found

    def forward(self, dense, x, lengths, key, keep):
        """Return (memory, states, saved): x (time, sentences, units) -> memory likewise, states [(c, h)] of each layer.

        Past a sentence's end memory has no meaning; states are those at the end.
        """
        saved, runs = {}, []
        for name, source in zip(self.directions, (x, reverse_sentences(x, lengths))):
            h, saved[name] = layer_forward(name, dense, source, no_state(x, self.units), key, keep,
                                           self.workspaces[name], lengths)
            runs.append(h)
        states = [saved[self.directions[1]][1].last_state()]
        h = array_module(x).concatenate([runs[0], reverse_sentences(runs[1], lengths)], axis=2)
        for name in self.upper:
            h, saved[name] = layer_forward(name, dense, h, no_state(h, self.units), key, keep, self.workspaces[name],
                                           lengths)
            states.append(saved[name][1].last_state())
        return h, states, saved

    def backward(self, dense, saved, dmemory, dstates, lengths, gradients, ready):
        """Return the gradient with respect to x; add each layer's gradients to ``gradients`` as soon as they are ready.

        dmemory: as memory, 0 past a sentence's end.  dstates: [(dc, dh)] of each layer.
        """
        dh = dmemory
        for name, last in zip(reversed(self.upper), reversed(dstates[1:])):
            dh, _ = layer_backward(name, dense, saved[name], dh, gradients, last)
            ready(gradients)
        forward, backward = self.directions
        units = self.units
        dx, _ = layer_backward(forward, dense, saved[forward], dh[:, :, :units], gradients)
        turned = reverse_sentences(dh[:, :, units:], lengths)
        dturned, _ = layer_backward(backward, dense, saved[backward], turned, gradients, dstates[0])
        ready(gradients)
        return dx + reverse_sentences(dturned, lengths)


def reverse_sentences(x, lengths):
    """Return a new array with each sentence reversed; positions past its end stay in place. Local.

    x: (time, sentences, d).  The function is its own transpose and its own inverse.
    """
    place = np.arange(len(x))[:, None]
    place = np.where(place < lengths, lengths - 1 - place, place)
    xp = array_module(x)
    return x[xp.asarray(place), xp.asarray(np.arange(x.shape[1]))]
