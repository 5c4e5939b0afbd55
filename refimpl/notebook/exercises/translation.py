"""Checks of notebook 8: even attention, and the most that α of the paper's translator can be."""

from refimpl.notebook.exercises import exercise, right, wrong

DENSE, SPARSE, ROWS, SENTENCES, WORDS = 94_070_785, 74_850_304, 36_548, 128, 50


@exercise
def check_even(weight):
    """The weight of each of 8 words that have the same score."""
    if abs(weight - 1 / 8) < 1e-6:
        return right("a softmax of equal scores is even: at first the decoder sees the mean of all words.")
    if abs(weight - 12.5) < 1e-6:
        return wrong("that is per cent: say it as a part of 1")
    if abs(weight - 1) < 1e-6:
        return wrong("weights of a sentence add up to 1")
    return wrong("exp of equal scores is equal: what must eight equal weights be?")


@exercise
def check_most(alpha):
    """The largest part of all elements that a worker of the paper's translator can touch."""
    def part(words):
        return (DENSE + SPARSE * SENTENCES * words / ROWS) / (DENSE + SPARSE)

    if abs(alpha - part(WORDS + 1)) < 1e-3:
        return right("0.636: all dense elements, 0.557, and 0.079 for the rows of the tables.")
    if abs(alpha - SENTENCES * (WORDS + 1) / ROWS) < 1e-3:
        return wrong("that is α of one table; what part of all elements is touched, the dense ones among them?")
    if abs(alpha - 2 * SPARSE * SENTENCES * (WORDS + 1) / ROWS / (DENSE + SPARSE)) < 1e-3 or alpha < 0.5:
        return wrong("dense elements are touched, too: all of them, in every step")
    return wrong("each table has 36,548 rows, and of each at most 128 sentences x 51 words are touched")
