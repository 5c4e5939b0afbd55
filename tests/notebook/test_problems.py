"""The instructor's problem sets: solutions earn all points, likely mistakes none; students see no answer."""

import json
import re
from contextlib import suppress
from fractions import Fraction
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "notebooks" / "instructor"
SETS = sorted((FOLDER / "source").glob("*/*.ipynb"))
POINTS, TESTED = 50, 40
FIELDS = {"grade", "grade_id", "locked", "schema_version", "solution", "task", "cell_type"}


def cells_of(path):
    return [{**cell, "source": "".join(cell["source"])} for cell in json.loads(path.read_text("utf-8"))["cells"]]


def graded(cell):
    return cell["metadata"]["nbgrader"]


def run(cells, until=None, instead=None):
    """Execute code cells, up to the one with that name; instead: name of a cell -> other source. Return the names."""
    names = {"__name__": "problems"}
    for cell in cells:
        name = graded(cell)["grade_id"]
        if cell["cell_type"] == "code":
            exec(compile((instead or {}).get(name, cell["source"]), name, "exec"), names)
        if name == until:
            break
    return names


def is_told(problems, name, wrong, said, test=None):
    """Give wrong(solution) in the cell of that name: the next test of a set, or the named one, must say so."""
    cells = cells_of(FOLDER / "source" / problems / f"{problems}.ipynb")
    place = [graded(cell)["grade_id"] for cell in cells].index(name)
    test = test or next(graded(cell)["grade_id"] for cell in cells[place:] if graded(cell)["grade"])
    with pytest.raises((AssertionError, ValueError), match=re.escape(said)):
        run(cells, test, {name: wrong(cells[place]["source"])})


def without_solutions(cells):
    """Return the cells that students get, by nbgrader's own hand."""
    nbformat = pytest.importorskip("nbformat", reason="the extra notebooks is not installed")
    preprocessors = pytest.importorskip("nbgrader.preprocessors", reason="the extra instructor is not installed")
    released = nbformat.from_dict({"cells": cells, "metadata": {"kernelspec": {"language": "python"}},
                                   "nbformat": 4, "nbformat_minor": 5})
    for step in (preprocessors.ClearSolutions(), preprocessors.ClearHiddenTests()):
        released, _ = step.preprocess(released, {})
    return released.cells


@pytest.mark.parametrize("path", SETS, ids=lambda path: path.stem)
def test_a_set_is_as_nbgrader_and_its_readers_expect(path):
    cells = cells_of(path)
    names = [graded(cell)["grade_id"] for cell in cells]
    assert len(set(names)) == len(names) and path.stem == path.parent.name
    for cell in cells:
        of = graded(cell)
        assert set(of) == FIELDS | ({"points"} if of["grade"] else set()), of["grade_id"]
        assert of["schema_version"] == 3 and of["cell_type"] == cell["cell_type"] and of["locked"] != of["solution"]
        assert cell.get("outputs", []) == [] and max(map(len, cell["source"].splitlines())) <= 120
    points = [(graded(cell)["points"], cell["cell_type"]) for cell in cells if graded(cell)["grade"]]
    assert sum(of for of, _ in points) == POINTS and sum(of for of, kind in points if kind == "code") == TESTED
    heads = [head for cell in cells for head in re.findall(r"^## \d\. .*\((\d+) points(, optional)?\)", cell["source"])]
    said = [int(given) for given, _ in heads]
    assert [bool(optional) for _, optional in heads] == [False] * (len(heads) - 1) + [True], "the proof is optional"
    assert sum(said) == POINTS and 3 <= len(said) <= 4 and all(10 <= given <= 25 for given in said)
    (essay,) = (cell["source"] for cell in cells if graded(cell)["grade"] and cell["cell_type"] == "markdown")
    rubric = essay.partition("**Rubric.**")[2]
    assert sum(map(int, re.findall(r"(?<![\w$])(\d+):", rubric))) == 10


@pytest.mark.parametrize("path", SETS, ids=lambda path: path.stem)
def test_solutions_earn_all_points(path):
    run(cells_of(path))


def unanswered(source):
    """Return a cell as students get it: for a test that needs no nbgrader."""
    return re.sub(r"### BEGIN SOLUTION.*?### END SOLUTION", "raise NotImplementedError", source, flags=re.DOTALL)


@pytest.mark.parametrize("path", SETS, ids=lambda path: path.stem)
def test_an_answer_earns_its_points_where_no_other_problem_is_answered(path):
    cells = cells_of(path)
    begins = [i for i, cell in enumerate(cells) if re.match(r"## \d\. ", cell["source"])] + [len(cells)]
    for begin, end in zip(begins, begins[1:]):
        names = {"__name__": "problems"}
        for i, cell in enumerate(cells):
            if cell["cell_type"] != "code":
                continue
            if begin <= i < end:
                exec(compile(cell["source"], graded(cell)["grade_id"], "exec"), names)
            else:  # what it defines before it fails is there, as when nbgrader executes it
                with suppress(NotImplementedError):
                    exec(compile(unanswered(cell["source"]), graded(cell)["grade_id"], "exec"), names)


def test_the_cost_of_a_fold_is_what_its_schedule_sends():
    names = run(cells_of(FOLDER / "source" / "problems_1" / "problems_1.ipynb"), "busiest-test")
    for ranks in (3, 6, 12):  # the chunks are whole: hence the rounding
        sent = Fraction(max(names["prove"](names["folded"](ranks), ranks).values()), ranks)
        assert abs(sent - names["busiest"](ranks)) <= Fraction(2, ranks), ranks


@pytest.mark.parametrize("path", SETS, ids=lambda path: path.stem)
def test_students_get_no_answer_and_no_point_for_none(path):
    given = without_solutions(cells_of(path))
    text = "\n".join(cell.source for cell in given)
    assert not re.search(r"SOLUTION|HIDDEN|Rubric", text)
    assert all("def " in cell.source for cell in given if graded(cell)["solution"] and cell.cell_type == "code")
    for cell in given:
        if graded(cell)["grade"] and cell.cell_type == "code":
            with pytest.raises(NotImplementedError):
                run(given, graded(cell)["grade_id"])


MISTAKES = [
    ("problems_1", "folded", "from refimpl.plain.collectives.schedule import ring as folded", "rounds, 4 are enough"),
    ("problems_1", "folded", "from refimpl.plain.collectives.schedule import halving_doubling as folded",
     "3 ranks: a message from or to rank 3, which does not exist"),
    ("problems_1", "busiest", "from fractions import Fraction\ndef busiest(n): return Fraction(2 * n - 2, n)",
     "5 ranks: 8/5 is the lower bound; but a partner"),
    ("problems_1", "shorter", "import math\ndef longest(n, latency, bandwidth): return latency * bandwidth",
     "recursive doubling 0.0002 s"),
    ("problems_2", "traffic", "import numpy as np\ndef traffic(wanted, size):\n n = len(wanted)\n return np.array([["
     "sum(i % n == o for i in rows) * (8 + size) * (r != o) for o in range(n)] for r, rows in enumerate(wanted)])",
     "one row number"),
    ("problems_2", "deal", "import numpy as np\ndef deal(shares, owners): return np.arange(len(shares)) % owners",
     "4 owners: the busiest serves 1.277"),
    ("problems_2", "deal", "import numpy as np\ndef deal(popularity, owners): return np.sort(np.arange(2000) % owners)",
     "the busiest serves 3"),
    ("problems_2", "machine", "import numpy as np\ndef of_machine(alpha, workers): return workers * alpha, 1.0",
     "two workers miss a row"),
    ("problems_3", "draws", "import numpy as np\ndef expected_alpha(p, draws): return float(np.mean((1 - np.array(p)) "
     "** draws))", "three draws miss a given word"),
    ("problems_3", "ways", "from fractions import Fraction\n"
     "def whole_from(n, size): return Fraction(2, n), Fraction(1)", "the allgather carries 1.059 times"),
    ("problems_3", "machines", "def allgather_over_server(m, g, alpha): return m * g / 2", "24.000, and not 25.228"),
    ("problems_8", "pieces", "import numpy as np\ndef summary(s, m): return np.exp(s).sum(), np.exp(s) @ m\n"
     "def merge(a, b): return a[0] + b[0], a[1] + b[1]\ndef context(a): return a[1] / a[0]", "the highest score"),
    ("problems_8", "pieces", "import numpy as np\ndef summary(s, m): return len(s), np.exp(s) @ m / np.exp(s).sum()\n"
     "def merge(a, b): return a[0] + b[0], (a[0] * a[1] + b[0] * b[1]) / (a[0] + b[0])\n"
     "def context(a): return a[1]", "two pieces do not weigh the same"),
    ("problems_8", "pieces", "import numpy as np\ndef summary(s, m): return s, m\n"
     "def merge(a, b): return tuple(map(np.concatenate, zip(a, b)))\n"
     "def context(a): return np.exp(a[0]) @ a[1] / np.exp(a[0]).sum()", "9 numbers in a summary: 4 are enough"),
    ("problems_8", "pieces", "import numpy as np\ndef summary(s, m):\n h = max(s, default=-np.inf)\n"
     " return h, np.exp(s - h).sum(), np.exp(s - h) @ m\ndef merge(a, b):\n h = max(a[0], b[0])\n"
     " return h, *(np.exp(a[0] - h) * one + np.exp(b[0] - h) * other for one, other in zip(a[1:], b[1:]))\n"
     "def context(a): return a[2] / a[1]", "two ranks without words, merged, have none"),
    ("problems_8", "backward", "import numpy as np\ndef backward(s, m, h, z, c, dc):\n a = np.exp(s - h) / z\n"
     " return a * (m @ dc), np.outer(a, dc)", "where is c?"),
    ("problems_8", "backward", "import numpy as np\ndef backward(s, m, h, z, c, dc):\n"
     " a = np.exp(s - h) / np.exp(s - h).sum()\n return a * ((m - c) @ dc), np.outer(a, dc)",
     "words 0 to 3 of 9: dc reaches m_s times the weight of word s"),
    ("problems_8", "gain", "from fractions import Fraction\ndef largest_gain(s, n): return Fraction(2, n), 1 / (1 - s)",
     "at α = 1/2 it is 1.3333, and not 2.0000"),
    ("problems_8", "gain", "from fractions import Fraction\ndef largest_gain(s, n):\n"
     " return Fraction(1, n), (1 - s / 2) / (1 - s + s / n)", "α = 4/15 gains more"),
    ("problems_9", "groups", "class Groups(Asynchronous):\n def arrived(self, owner, push): return [[push]]",
     "at 1 s worker 0 pulls for step 1, but worker 1 of its group has not pushed for step 0"),
    ("problems_9", "groups", "from refimpl.plain.without_barriers.consistencies import Softsync\nclass Groups(Softsync):\n"
     " def answers(self, owner, worker):\n  first = worker // self.number * self.number\n"
     "  return owner.clocks[worker] == min(owner.clocks[first:first + self.number])", "mixes workers [0, 2] of two"),
    ("problems_9", "record", "def first_impossible(record, n, steps, bound):\n clocks, on = [0] * n, set()\n"
     " for i, w in enumerate(record):\n  if w in on: clocks[w] += 1\n"
     "  elif clocks[w] - min(clocks) > bound: return i\n  on ^= {w}", "and not 3: worker 1 has still to push"),
    ("problems_9", "oldest", "def oldest(n, s): return (n - 1) * (s + 1)\ndef script(n, s):\n"
     " return lambda worker, clock: 1000 if worker == 0 else 1", "where may a worker stand when it pulls?"),
    ("problems_9", "oldest", "def oldest(n, s): return (n - 1) * (2 * s + 1)\ndef script(n, s):\n"
     " return lambda worker, clock: 1000 if worker == 0 else 1", "is 2 updates old, and you say 3"),
    ("problems_10", "pair", "import numpy as np\ndef forward(x, members, b):\n"
     " return [np.maximum(x @ A.T + a, 0) @ B.T + b for A, a, B in members]", "one b: it counts once"),
    ("problems_10", "pair", "import numpy as np\ndef forward(x, members, b):\n"
     " return [(x @ A.T + a) @ B.T + b * (not i) for i, (A, a, B) in enumerate(members)]", "where is the relu?"),
    ("problems_10", "ways", "from fractions import Fraction\ndef elements_sent(way, D, H, F, G, K, B):\n"
     " n, whole = D * H + H * F, way == 'whole'\n N, held = (G * K, n) if whole else (G, Fraction(n, K))\n"
     " return 2 * (K - 1) * B * (D + H + F) * (not whole) + 2 * Fraction(N - 1, N) * held",
     "it is 1.088 times what is sent"),
    ("problems_10", "answer", "def breaking(): return [2.0**24, 1, 1, 0, 0, 0, 0, 0]", "but not together"),
]


@pytest.mark.parametrize(("problems", "name", "answer", "said"), MISTAKES, ids=lambda of: str(of)[:12])
def test_a_likely_mistake_is_told(problems, name, answer, said):
    is_told(problems, name, lambda solution: answer, said)


def test_a_merge_that_counts_twice_is_told():
    cells = cells_of(FOLDER / "source" / "problems_2" / "problems_2.ipynb")
    wrong = ("import numpy as np\ndef of_machine(a, g): return 1 - (1 - a)**g, g * a / (1 - (1 - a)**g) if a else 1\n"
             "def merge(ids, rows): return np.concatenate(ids), np.concatenate(rows)")
    with pytest.raises(AssertionError, match="sorted, each once"):
        run(cells, "merge-test", {"machine": wrong})


SLIPS = [  # set, answer, test, what the solution says, what a student says instead, the hint
    ("problems_4", "loads", "loads-test", "+ 2 * (sum(dense) - own) for", "for", "message by message 200"),
    ("problems_4", "quarrel", "equal-test", " * (share * machines - 1) / ((machines - 1) * table)",
     " * share / table", "f = 1/2: at α = 0.0100 ps"),
    ("problems_4", "quarrel", "most-test", "Fraction(machines + 2, 4)", "Fraction(machines, 2)", "the other carries"),
    ("problems_4", "norm", "norm-test", 'kind == "rows" or rank == 0', "True", "a replica is the same gradient"),
    ("problems_4", "norm", "norm-test", 'kind == "rows" or rank == 0', 'kind == "rows"', "something is left out"),
    ("problems_4", "norm", "norm-test", "math.fsum(", "sum(", "in which order did you add?"),
    ("problems_5", "even", "even-test", "min(max(p, 1), owners)", "max(p, 1)", "t(40) = θ0 + 440.0000, and t(4) ="),
    ("problems_5", "even", "even-test", "(root, root + 1)", "(root,)", "t(2) = θ0 + 6.0000, and t(3) = θ0 + 5.66"),
    ("problems_5", "trap", "trap-test", "start + start // 2", "2 * start", "1.00 times as slow as the lowest, 16"),
    ("problems_5", "trap", "trap-test", "1.1 - 0.2 * (p - start / 2) / start", "1", "from 1 to 2 it goes"),
    ("problems_5", "apart", "apart-test", "Fraction(2,", "Fraction(1,", "in 2 of 2 orders they lie apart, you say"),
    ("problems_5", "apart", "needed-test", "(counts - 1) * apart", "apart", "6 counts, 5 samples of each: deceived"),
    ("problems_6", "digits", "most-test", "base, ranks = 2 * c + 1", "base, ranks = c + 1", "1 + 3 + 9 is not"),
    ("problems_6", "digits", "most-test", "c * sum(", "sum(", "counts up to 2 of either sign, 24 digits: 10 ranks"),
    ("problems_6", "digits", "counts-test", "(rest + c) % base - c", "rest % base", "not [1, 2, 2, 0] but [1, -1,"),
    ("problems_6", "digits", "counts-test", "if total != int(total)", "if False", "0.5 on 4 ranks, counts up to 1"),
    ("problems_6", "lose", "lose-test", "[1] * (n - 1)", "[0.5] * (n - 1)", "lose 1.5 / 2**24 of the first; 3 can"),
    ("problems_6", "lose", "lose-test", "[2**24, 2**24, -(2**25), 1]", "[2**24, 1, -2**24, 1]", "the tree gives 1.0"),
    ("problems_6", "adder", "adder-test", "if sibling not in", "if True or sibling not in", "it keeps both children"),
    ("problems_6", "adder", "adder-test", "middle = low + (1 << (high - low - 1).bit_length() - 1)",
     "middle = (low + high) // 2", "6 ranks: "),
    ("problems_7", "liking", "rows-test", "unique_ids(batch.inputs[:, 0])", "batch.inputs[:, 0]", "sorted, each"),
    ("problems_7", "liking", "slopes-test", "-slope * wanted])", "slope * wanted])", "gradient of 'items'"),
    ("problems_7", "liking", "slopes-test", '["matrix"].T', '["matrix"]', "gradient of 'users'"),
    ("problems_7", "liking", "slopes-test", "batch.normaliser", "len(user)", "divide by the normaliser, and"),
    ("problems_7", "sums", "sums-test", "1e-9 * abs(parts).sum(axis=0).max(initial=0)", "1e-8", "you let it pass"),
    ("problems_7", "sums", "sums-test", "1e-9 *", "0 *", "you accuse it, and it only rounds"),
    ("problems_7", "sums", "sums-test", '{"": np.array(float(loss))}', "{}", "LossTimesCount"),
    ("problems_7", "memory", "memory-test", "bincount(kinds[~held])", "bincount(kinds)", "then kinds 0 and 1 are equally"),
    ("problems_0", "late", "loss-test", "np.logaddexp(0, -t * (s * x + c)).mean()",
     "np.log(1 + np.exp(-t * (s * x + c))).mean()", "t z = -1000: the loss is 1000, you say inf"),
    ("problems_0", "late", "loss-test", ".mean()", ".sum()", "parameters [1.0, -2.0]: the loss is"),
    ("problems_0", "late", "late-test", " / batch", " / len(x)", "4 microbatches: their gradients add up to"),
    ("problems_0", "late", "late-test", "slope = -t", "slope = t", "1 microbatches: their gradients add up to"),
    ("problems_0", "rate", "rate-test", "2 / len(x)", "1 / len(x)", "already grows"),
    ("problems_0", "rate", "rate-test", ".max()", ".min()", "already grows"),
    ("problems_0", "rate", "rate-test", "return 2 /", "return 1 /", "still converges"),
    ("problems_0", "help", "seconds-test", "2 * (machines - 1)", "2 * machines", "6 messages"),
    ("problems_0", "help", "best-test", "range(1, most + 1)", "range(2, most + 1)", "the best number of machines is 1, you say 2"),
    ("problems_11", "packed", "packed-test", "else (b, a)", "else (a, b)", "three trees of rate 1/2"),
    ("problems_11", "packed", "refused-test", "load[cable] <= cables[cable]", "True", "cable 0-1 carries 3/2"),
    ("problems_11", "packed", "refused-test", " or joined[a] is joined[b]", "", "make a cycle"),
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
     "the best number of ranks is 1, you say 3"),
    ("problems_15", "largest", "feedback-test", "(-abs(whole[i]), i))[:k]\n        sent", "(-whole[i], i))[:k]\n        sent",
     "send [1], not [0]"),
    ("problems_15", "largest", "feedback-test", "i: whole[i] for", "i: gradient[i] for", "is there, you send"),
    ("problems_15", "largest", "first-test", "residual, step = [0] * len(gradient), 0", "residual, step = [0] * len(gradient), 1",
     "in step 5, you say 6"),
    ("problems_15", "whole", "scale-test", "2 ** (bits - 1) - 1", "2 ** bits - 1", "is above 127"),
    ("problems_15", "whole", "scale-test", "V * round(", "round(", "is above 127"),
    ("problems_15", "whole", "total-test", "/ common for", "// common for", "entry 0"),
    ("problems_15", "chance", "chance-test", "(number - below) * L", "Fraction(1, 2)", "the expectation is 13/12"),
    ("problems_15", "chance", "chance-test", "if part:", "if True:", "a sum that cannot happen"),
    ("problems_14", "ranks", "ranks-test", "return min(", "return max(", "the best number of ranks is"),
]


@pytest.mark.parametrize(("problems", "name", "test", "right", "slip", "said"), SLIPS)
def test_a_likely_slip_is_told(problems, name, test, right, slip, said):
    def slipped(solution):
        assert solution.count(right), f"the solution has no {right!r}"
        return solution.replace(right, slip)

    is_told(problems, name, slipped, said, test)


LATER = [
    ("problems_8", "backward", "scale-test", "def normalised_backward(v, g, dscale):\n length = np.sqrt(v @ v)\n"
     " return g / length * dscale, dscale @ v / length", "a longer v changes nothing"),
    ("problems_8", "gain", "gain-test", "def share_for(gain, ranks): return 1 - 1 / Fraction(gain)",
     "twice as much only where all is sparse"),
    ("problems_9", "groups", "groups-test", "class Groups(Groups):\n def answers(self, owner, worker):\n"
     "  return owner.clocks[worker] == min(owner.clocks)", "group 0 should need 6 s"),
    ("problems_9", "groups", "groups-test", "class Groups(Groups):\n def arrived(self, owner, push):\n"
     "  return [[one] for pushes in super().arrived(owner, push) for one in pushes]", "it takes each of a group, once"),
    ("problems_9", "record", "normal-test", "def normal(record): return tuple(record)", "but you tell them apart"),
    ("problems_9", "record", "normal-test", "def normal(record): return tuple(sorted(record))", "you make one of them"),
    ("problems_9", "record", "possible-test", "right = first_impossible\n"
     "def first_impossible(record, n, steps, bound): return right(record, n, steps, bound + 1)",
     "and not 2: worker 0 pulls again"),
    ("problems_10", "pair", "backward-test", "def backward(dy, x, members):\n"
     " return [dy @ B @ A for A, _, B in members], members", "where the relu gave 0, nothing flows back"),
    ("problems_10", "ways", "sent-test", "right = elements_sent\ndef elements_sent(way, *sizes):\n"
     " return right(way, *sizes) / (1 + (way == 'pair'))", "to the other one"),
    ("problems_10", "ways", "sent-test", "right = elements_sent\ndef elements_sent(way, *sizes):\n"
     " return right(way, *sizes) * (3 - (way == 'gathered')) / 3", "twice; and 40 sums"),
    ("problems_10", "ways", "crossings-test", "right = crossings\ndef crossings(*sizes): return right(*sizes)[:1] * 2",
     "times what gathered does"),
    ("problems_10", "answer", "repair-test", "def node(blocks): return add_from_left(blocks)",
     "K = 2 gives other bits than K = 1"),
    ("problems_10", "answer", "repair-test", "def whole(nodes): return sum(node.astype(np.float64) for node in nodes)",
     "gives other bits"),
]


@pytest.mark.parametrize(("problems", "name", "test", "wrong", "said"), LATER, ids=lambda of: str(of)[:12])
def test_a_mistake_in_an_otherwise_right_answer_is_told(problems, name, test, wrong, said):
    is_told(problems, name, lambda solution: f"{solution}\n{wrong}", said, test)
