"""Exercises of lesson 7: bytes of the dense part, the normaliser, the gradient of a simpler model."""

import numpy as np

from models import Batch
from models.gradient_check import GradientError, check_gradients
from refimpl.notebook.exercises import answered, exercise, number, right, wrong

ELEMENTS = 16 * 3 + 3
WHOLE = 4 * ELEMENTS
"""Bytes of the dense variables, weights (16, 3) and bias (3,)."""

check_dense_bytes = number(2 * 3 * WHOLE // 4, f"2 · 3/4 · {ELEMENTS} · 4: very little compared with the rows.", {
    WHOLE: "that is one copy: an allreduce sends nearly two",
    2 * WHOLE: "nearly: a rank need not send itself its own part; 2 (N - 1) / N, not 2",
    2 * 3 * ELEMENTS // 4: "these are elements; a float32 has 4 bytes",
    4 * 3 * WHOLE // 4: "that is in and out; the question is only what it sends",
}, "how many elements, how many bytes each, and 2 (N - 1) / N of them")
"""How many bytes a rank of 4 sends in a step for the dense variables."""

check_times = number(
    8, "the factor is the number of microbatches, on any number of ranks. The trainer cannot detect it.",
    {4: "would the factor be different on 2 ranks? What is divided separately?"},
    "compare the sum of 8 means with the mean of everything")
"""The factor by which a gradient is too large if each of 8 microbatches divides by its own size."""


@exercise
def check_votes(model):
    """Check the class Votes: its gradients against differences of its loss, in float64."""
    random = np.random.default_rng(7)
    batch = Batch(3 * random.integers(0, 12, (6, 5)), random.integers(0, 3, 6), normaliser=24.0)
    votes = model(40, dtype="float64")
    ids = votes.rows_needed(batch)["votes"]
    _, gradients = votes.loss_and_gradients({"bias": np.zeros(3)}, {"votes": np.ones((len(ids), 3))}, batch)
    for value in answered(gradients).values():
        answered(value)
    try:
        check_gradients(votes, batch)
    except GradientError as problem:
        return wrong(f"{problem}. {_hint(gradients, ids, str(problem))}")
    return right("each word of a passage gets its share of the slope; a word that occurs twice gets two shares.")


def _hint(gradients, ids, problem) -> str:
    if not hasattr(gradients.get("votes"), "ids"):
        return "aggregate_rows(numbers of the words, one row for each) makes a RowGradient"
    if not np.isin(gradients["votes"].ids, ids).all():
        return "place counts within the rows that were pulled; the gradient needs the word numbers, batch.inputs"
    if "'bias'" in problem:
        return "The bias is added to the scores of every passage: the sum of their slopes"
    return "Every word of a passage has the same row: the passage's slope over the number of its words"
