"""Feedback: a part of an LSTM's input that its own output makes, as attention does (Luong et al. 2015, input feeding)."""

from typing import Protocol


class Feedback(Protocol):
    """What of an LSTM's output goes into its next input, in its last ``columns``: attention, for one."""

    columns: int

    def forward(self, t, h):
        """Return these columns of step t + 1, (streams, columns), made of h_t: (streams, width).

        Asked after the last step too, where nobody reads the answer.
        """

    def backward(self, t, d):
        """Return the gradient with respect to h_t: (streams, width); asked from the last step to the first.

        d: with respect to what ``forward`` returned, (streams, columns); None for the last step.
        """


def fed_rows(kernel, width, feedback):
    """Return the kernel's rows for what feedback writes into x: (columns, 4 * hidden). Local."""
    inputs = len(kernel) - width
    return kernel[inputs - feedback.columns:inputs]
