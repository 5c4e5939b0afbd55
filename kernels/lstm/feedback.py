"""Feedback: a part of an LSTM's input that depends on its output, as in attention (Luong et al. 2015)."""

from typing import Protocol


class Feedback(Protocol):
    """Computes the last ``columns`` of an LSTM's next input from its output, as attention does."""

    columns: int

    def forward(self, t, h):
        """Return these columns of step t + 1, (streams, columns), from h_t: (streams, width).

        It is also called after the last step; the result is then not used.
        """

    def backward(self, t, d):
        """Return the gradient of h_t: (streams, width). It is called from the last step to the first.

        d: the gradient of the result of ``forward``, (streams, columns); None for the last step.
        """


def fed_rows(kernel, width, feedback):
    """Return the kernel's rows for the columns that feedback writes: (columns, 4 * hidden). Local."""
    inputs = len(kernel) - width
    return kernel[inputs - feedback.columns:inputs]
