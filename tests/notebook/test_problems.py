"""The instructor's problem sets: solutions earn all points, likely mistakes none; students see no answer."""

import re
from contextlib import suppress
from fractions import Fraction

import pytest
from problem_sets import FOLDER, cells_of, graded, is_told, run, slip_is_told

SETS = sorted((FOLDER / "source").glob("*/*.ipynb"))
POINTS, TESTED = 50, 40
FIELDS = {"grade", "grade_id", "locked", "schema_version", "solution", "task", "cell_type"}


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
     "5 ranks: that is the lower bound; but a partner"),
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
     "** draws))", "each of two words is missed"),
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
    ("problems_7", "memory", "memory-test", "bincount(kinds[~held])", "bincount(kinds)", "among what is left kind 0"),
]


@pytest.mark.parametrize(("problems", "name", "test", "right", "slip", "said"), SLIPS)
def test_a_likely_slip_is_told(problems, name, test, right, slip, said):
    slip_is_told(problems, name, test, right, slip, said)


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
