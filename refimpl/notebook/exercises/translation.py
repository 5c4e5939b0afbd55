"""Checks of notebook 8: even attention, and the largest possible α of the paper's translator."""

from refimpl.notebook.exercises import exercise, right, wrong

DENSE, SPARSE, ROWS, SENTENCES, WORDS = 94_070_785, 74_850_304, 36_548, 128, 50


@exercise
def check_even(weight):
    """Check the weight of each of 8 words that have the same score."""
    if abs(weight - 1 / 8) < 1e-6:
        return right("a softmax of equal scores is even: at first the decoder sees the mean of all words.")
    if abs(weight - 12.5) < 1e-6:
        return wrong("that is in per cent: give a part of 1")
    if abs(weight - 1) < 1e-6:
        return wrong("all weights of a sentence together add up to 1")
    return wrong("exp of equal scores is equal: how large are eight equal weights?")


@exercise
def check_most(alpha):
    """Check the largest part of all elements that a worker of the paper's translator can touch."""
    def part(words):
        return (DENSE + SPARSE * SENTENCES * words / ROWS) / (DENSE + SPARSE)

    if abs(alpha - part(WORDS + 1)) < 1e-3:
        return right("0.636: all dense elements, 0.557, and 0.079 for the rows of the tables.")
    if abs(alpha - SENTENCES * (WORDS + 1) / ROWS) < 1e-3:
        return wrong("that is α of one table; which part of all elements, with the dense ones, is touched?")
    if abs(alpha - 2 * SPARSE * SENTENCES * (WORDS + 1) / ROWS / (DENSE + SPARSE)) < 1e-3 or alpha < 0.5:
        return wrong("dense elements are touched, too: all dense elements, in every step")
    return wrong("each table has 36,548 rows, and at most 128 sentences x 51 words are touched")
