"""Checks of notebook 3: expected rows, a cost formula, and the ranks at which two strategies cost the same."""

from fractions import Fraction

from refimpl.experiments.cost_table import CostCase, closed_formula
from refimpl.notebook.exercises import answered, compared, exercise, right, wrong


@exercise
def check_expected(rows):
    """Check the expected number of different words in three independent draws from two equally frequent words."""
    often = "both words occur often, not always: all three draws can give the same word"
    return compared(rows, 1.75, "each word is missed by all three draws with probability 1/8: 2 (1 - 1/8) = 1.75.",
                    {2 * 0.5**3: "that is how many words are missed; how many are not?", 2: often, 3: often},
                    "with which probability do three draws all miss the first word?", apart=1e-9)


MISTAKES = {
    "that is one direction; count what a rank sends and what it receives":
        lambda alpha, w, n: 2 * alpha * w * Fraction(n - 1, n),
    "that is the owner of all of it; here each rank owns a part": lambda alpha, w, n: 2 * alpha * w * (n - 1),
    "a rank owns 1/N of the rows, and this part never leaves it": lambda alpha, w, n: 4 * alpha * w,
    "only touched rows travel": lambda alpha, w, n: 4 * w * Fraction(n - 1, n),
    "a rank serves too: its work as a worker is only half of the bytes": lambda alpha, w, n: 2 * alpha * w,
}
"""Hint -> the wrong formula for which it is given."""


@exercise
def check_server_bytes(server_bytes):
    """Check a function server_bytes(alpha, w, ranks): values in and out of each rank, for a table over all ranks."""
    asked = [(Fraction(1, 8), 4), (Fraction(1, 2), 2), (Fraction(1), 8), (Fraction(0), 4), (Fraction(1, 4), 3)]
    cases = [CostCase(True, "server", rows=192, alpha=alpha, partitions=ranks) for alpha, ranks in asked]
    wanted = [closed_formula(case, ranks).values for case, (_, ranks) in zip(cases, asked)]
    inputs = [(alpha, case.nbytes, ranks) for case, (alpha, ranks) in zip(cases, asked)]
    found = [answered(server_bytes(*each)) for each in inputs]
    if all(abs(value - want) <= 1e-9 * abs(want) for value, want in zip(found, wanted)):
        return right("4 α w (N - 1) / N: pulled and pushed as a worker, served and received as an owner.")
    for hint, formula in MISTAKES.items():
        if all(abs(value - formula(*each)) <= 1e-9 * value for value, each in zip(found, inputs)):
            return wrong(hint)
    first = next(i for i, (value, want) in enumerate(zip(found, wanted)) if abs(value - want) > 1e-9 * abs(want))
    alpha, w, ranks = inputs[first]
    return wrong(f"server_bytes({alpha}, {w}, {ranks}) returned {float(found[first]):g}, and a step's ledger shows "
                 f"{float(wanted[first]):g}")


@exercise
def check_crossing(ranks):
    """Check the number of ranks on which gathering 2 % of a table's rows and sending the whole table cost the same."""
    return compared(ranks, 100, "2 / α. On more ranks the whole table is cheaper. The server sends fewer values at "
                    "any N.", {50: "the allreduce has 4 in front, the allgather 2"},
                    "the answer is a number of ranks; α is given" if ranks < 1 else
                    "set 2 α w (N - 1) = 4 w (N - 1) / N, and solve for N", apart=0.5)
