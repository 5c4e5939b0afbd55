"""Exercises of the lesson about codecs: error feedback, and the number of microbatches at which 1-bit saves nothing."""

import numpy as np

from refimpl.notebook.exercises import answered, exercise, number, right, wrong


@exercise
def check_feedback(step):
    """Check a function (gradient, residual, codec) -> (what is sent, new residual)."""
    gradient, residual = np.array([4.0, -1.0, 0.5]), np.array([-3.0, 0.5, 1.0])
    answer = answered(step(gradient, residual, lambda v: np.where(np.abs(v) >= 1, np.trunc(v), 0.0)))
    if not isinstance(answer, tuple) or len(answer) != 2:
        return wrong("return two arrays: what is sent, and the new residual")
    sent, kept = (np.asarray(array, np.float64) for array in answer)
    if np.array_equal(sent, [4, -1, 0]):
        return wrong("the residual of the step before is never sent: what is encoded must contain it")
    if not np.array_equal(sent, [1, 0, 1]):
        return wrong("what is encoded is the gradient and the residual of the step before")
    if not np.array_equal(sent + kept, gradient + residual):
        return wrong("sent and kept together must be what was given: gradient and residual")
    return right("sent and kept together are gradient and residual, so nothing is lost.")


check_microbatches = number(64, "with fewer microbatches 1-bit saves bytes, whatever the number of ranks is.", {
    8: "n/8 bytes a message, and 8n in the allreduce: divide one by the other",
    32: "an allreduce sends each number twice: once to be added, once with the sum",
}, "set V/N · n/8 · (N - 1) equal to 8n (N - 1)/N")
"""V at which 1-bit messages of all microbatches take the bytes of an allreduce of float32."""
