"""Likely mistakes in problem sets 0 and from 11 on: each earns no point, and is told what is wrong."""

import pytest
from problem_sets import slip_is_told

SLIPS = [  # set, answer, test, what the solution says, what a student says instead, the hint
    ("problems_0", "late", "loss-test", "np.logaddexp(0, -t * (s * x + c)).mean()",
     "np.log(1 + np.exp(-t * (s * x + c))).mean()", "t z = -1000: the loss is 1000, you say inf"),
    ("problems_0", "late", "loss-test", ".mean()", ".sum()", "parameters [1.0, -2.0]: the loss is"),
    ("problems_0", "late", "late-test", " / batch", " / len(x)", "4 microbatches: their gradients add up to"),
    ("problems_0", "late", "late-test", "slope = -t", "slope = t", "1 microbatches: their gradients add up to"),
    ("problems_0", "rate", "rate-test", "2 / len(x)", "1 / len(x)", "already grows"),
    ("problems_0", "rate", "rate-test", ".max()", ".min()", "already grows"),
    ("problems_0", "rate", "rate-test", "return 2 /", "return 1 /", "still converges"),
    ("problems_0", "help", "seconds-test", "2 * (machines - 1)", "2 * machines", "6 messages"),
    ("problems_0", "help", "best-test", "range(1, most + 1)", "range(2, most + 1)", "1 machines are best, you say 2"),
    ("problems_11", "packed", "packed-test", "else (b, a)", "else (a, b)", "three trees of rate 1/2"),
    ("problems_11", "packed", "refused-test", "load[cable] <= cables[cable]", "True", "cable 0-1 carries 3/2"),
    ("problems_11", "packed", "refused-test", " or joined[a] is joined[b]", "", "make a circle"),
    ("problems_11", "packed", "refused-test", "if len(tree) != ranks - 1", "if False", "rank 3 is not reached"),
    ("problems_11", "cut", "cut-test", "/ (len(parts) - 1)", "/ len(parts)", "the best rate is 5/3"),
    ("problems_11", "cut", "cut-test", "(parts for parts in divisions(ranks) if len(parts) > 1)",
     "(parts for parts in divisions(ranks) if len(parts) == ranks)", "the best rate is 1, your smallest cut says 7/5"),
    ("problems_11", "cut", "parts-test", "return bound(best), best", "return bound(best), best[1:]", "each rank once"),
    ("problems_11", "star", "star-test", "min(everywhere, Fraction(min(cards)))", "everywhere",
     "the best rate is 100, you say 350/3"),
    ("problems_11", "star", "star-test", "min(everywhere, Fraction(min(cards)))", "Fraction(min(cards))",
     "the best rate is 200, you say 300"),
    ("problems_12", "gone", "gone-test", "_of(rank, ranks,", "_of(rank, ranks - 1,", "[4, 5] are lost, you say"),
    ("problems_12", "gone", "share-test", "lost[i::len(alive)]", "lost", "and you deal [4, 4, 4, 5, 5, 5]"),
    ("problems_12", "gone", "share-test", "lost[i::len(alive)]", "lost * (i == 0)", "2 microbatches for 3 ranks"),
    ("problems_12", "often", "overhead-test", "(k + 1) / 2", "k / 2", "k = 10: 0.200382 s a step"),
    ("problems_12", "often", "interval-test", "2 * copy", "copy", "is best, you say"),
    ("problems_12", "copies", "copies-test", "min(c, dead)", "min(c - 1, dead)", "rows are lost in 8 of 28 choices"),
    ("problems_12", "copies", "copies-test", "* N, N - k)", "* N, N)", "rows are lost in 8 of 28 choices"),
    ("problems_13", "half", "seconds-test", "len(sizes) * Fraction(a)", "Fraction(a)", "3 tensors: 0.000256 s one by one"),
    ("problems_13", "half", "seconds-test", " + total / c", "", "as one message; you say"),
    ("problems_13", "half", "worth-test", "(count - 1)", "count", "the buffer is slower"),
    ("problems_13", "half", "worth-test", "// count", "// count // 2", "larger ones are worth it"),
    ("problems_13", "bytes", "bytes-test", "8 * 2", "8", "dynamic, 3 of 10 rows of 64 bytes: 240 bytes, you say 232"),
    ("problems_13", "bytes", "choose-test", "<= memory", "<= 10**9", "these slots do not fit into 1000 bytes"),
    ("problems_13", "bytes", "choose-test", "key=mean_bytes", "key=slots", "bytes a step are enough"),
    ("problems_13", "ring", "ring-test", "(signal - credit) % wrap", "signal - credit", "signal "),
    ("problems_13", "ring", "ring-test", "ahead > slots or", "ahead > wrap or", "signal 5 and credit 1 cannot be"),
    ("problems_13", "ring", "ring-test", "return slots + 1", "return slots", "numbers are needed, you say 1"),
    ("problems_14", "change", "change-test", "np.argmin(", "np.argmax(", "can grow is that of sample 0, not 2"),
    ("problems_14", "change", "change-test", "room_i, room_j)", "room_i)", "they must stay in 0 to"),
    ("problems_14", "change", "change-test", " - 2 * K[i, j], 1", ", 1", "the step may be"),
    ("problems_14", "change", "train-test", "<= 2 * tolerance", "<= 20 * tolerance", "more than twice 0.001"),
    ("problems_14", "cache", "lru-test", "cache.remove(sample)", "continue", "rows are computed, you say"),
    ("problems_14", "cache", "least-test", "max(cache,", "min(cache,", "rows are enough, you say"),
    ("problems_14", "ranks", "ranks-test", "(ranks - 1) * message) if ranks > 1 else 0.0", "(ranks - 1) * message)",
     "1 ranks are best, you say 3"),
    ("problems_14", "ranks", "ranks-test", "return min(", "return max(", "ranks are best, you say"),
]


@pytest.mark.parametrize(("problems", "name", "test", "right", "slip", "said"), SLIPS)
def test_a_likely_slip_is_told(problems, name, test, right, slip, said):
    slip_is_told(problems, name, test, right, slip, said)
