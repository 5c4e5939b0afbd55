"""Checks of lesson 3: expected rows, and the bytes of a server and of an allgather."""

from fractions import Fraction

from refimpl.experiments.cost_table import CostCase, closed_formula
from refimpl.notebook.exercises import answered, exercise, number, right, wrong

OFTEN = "both words occur often, not always: all three draws can give the same word"

check_expected = number(
    1.75, "each word is missed by all three draws with probability 1/8: 2 (1 - 1/8) = 1.75.",
    {2 * 0.5**3: "that is how many words are missed; how many are not?", 2: OFTEN, 3: OFTEN},
    "with which probability do three draws all miss the first word?", apart=1e-9)
"""The expected number of different words in three independent draws from two equally frequent words."""

MISTAKES = {
    "that is one direction; count what a rank sends and what it receives":
        lambda alpha, w, n: 2 * alpha * w * Fraction(n - 1, n),
    "that is the owner of all of it; here each rank owns a part": lambda alpha, w, n: 2 * alpha * w * (n - 1),
    "a rank owns 1/N of the rows, and this part never leaves it": lambda alpha, w, n: 4 * alpha * w,
    "only touched rows travel": lambda alpha, w, n: 4 * w * Fraction(n - 1, n),
    "a rank serves too: its work as a worker is only half of the bytes": lambda alpha, w, n: 2 * alpha * w,
}
"""Hint -> the wrong formula for which it is given."""


SHARED = {
    "that is N ranks which touch so many rows each; here they touch them together": lambda t, w, n: 2 * t * w * (n - 1),
    "that is one direction; count what a rank sends and what it receives": lambda t, w, n: t * w * Fraction(n - 1, n),
    "a rank needs no message to itself: it has N - 1 partners": lambda t, w, n: 2 * t * w,
    "a rank sends its rows to each of N - 1 others": lambda t, w, n: 2 * t * w * Fraction(1, n),
    "that is the server; begin with 2 α w (N - 1)": lambda t, w, n: 4 * t * w * Fraction(n - 1, n * n),
}
"""Hint -> the wrong formula for which it is given."""


def _formula(said, function, inputs, wanted, mistakes, why):
    """Return the verdict on a function of (part, w, ranks) that returns bytes. said: its name."""
    found = [answered(function(*each)) for each in inputs]
    if all(abs(value - want) <= 1e-9 * abs(want) for value, want in zip(found, wanted)):
        return right(why)
    for hint, formula in mistakes.items():
        if all(abs(value - formula(*each)) <= 1e-9 * value for value, each in zip(found, inputs)):
            return wrong(hint)
    first = next(i for i, (value, want) in enumerate(zip(found, wanted)) if abs(value - want) > 1e-9 * abs(want))
    part, w, ranks = inputs[first]
    return wrong(f"{said}({part}, {w}, {ranks}) returned {float(found[first]):g}, and a step's ledger shows "
                 f"{float(wanted[first]):g}")


@exercise
def check_server_bytes(server_bytes):
    """Check a function server_bytes(alpha, w, ranks): values in and out of each rank, for a table over all ranks."""
    asked = [(Fraction(1, 8), 4), (Fraction(1, 2), 2), (Fraction(1), 8), (Fraction(0), 4), (Fraction(1, 4), 3)]
    cases = [CostCase(True, "server", rows=192, alpha=alpha, partitions=ranks) for alpha, ranks in asked]
    wanted = [closed_formula(case, ranks).values for case, (_, ranks) in zip(cases, asked)]
    inputs = [(alpha, case.nbytes, ranks) for case, (alpha, ranks) in zip(cases, asked)]
    return _formula("server_bytes", server_bytes, inputs, wanted, MISTAKES,
                    "4 α w (N - 1) / N: pulled and pushed as a worker, served and received as an owner.")


@exercise
def check_allgather_bytes(allgather_bytes):
    """Check a function allgather_bytes(together, w, ranks): values in and out of each rank if ranks share the rows."""
    asked = [(Fraction(1, 2), 4), (Fraction(1), 8), (Fraction(1, 2), 2), (Fraction(0), 4), (Fraction(3, 8), 3)]
    cases = [CostCase(True, "allgather", rows=192, alpha=together / ranks) for together, ranks in asked]
    wanted = [closed_formula(case, ranks).values for case, (_, ranks) in zip(cases, asked)]
    inputs = [(together, case.nbytes, ranks) for case, (together, ranks) in zip(cases, asked)]
    return _formula("allgather_bytes", allgather_bytes, inputs, wanted, SHARED,
                    "2 together w (N - 1) / N: never above 2 together w. More words made the line grow.")
