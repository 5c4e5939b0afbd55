"""Owners without barriers: what the scripts are about, the rule held against exact arithmetic, and our owner."""

from fractions import Fraction

import numpy as np
import pytest

from mutants.groups import serving
from mutants.planted import MUTANTS
from refimpl.conformance.adapters.ours_owner import Owners
from refimpl.conformance.adapters.reference import Reference
from refimpl.conformance.arrivals import play
from refimpl.conformance.case import Rows
from refimpl.conformance.cases import all_cases, case_named
from refimpl.conformance.cases.owner import first_values
from refimpl.conformance.compare import judge
from refimpl.conformance.runner import run_local
from refimpl.conformance.semantics import SUPPORTS, Semantics
from refimpl.conformance.space.deviation import Place, code_of
from refimpl.conformance.space.owner import KINDS, Served, Uncorrected
from refimpl.conformance.space.training import TrainingAnswers
from refimpl.conformance.target import Answer, Target
from refimpl.plain.without_barriers.owner import Owner

CASES = [case for case in all_cases(1) if case.kind == "owner"]
NAMES = {case.name.removeprefix("owner/"): case for case in CASES}


def served(case):
    return Served(case, Semantics()).found


def test_scripts_take_turns():
    """Each worker pulls and pushes by turns, and the last pull, of all rows, is answered at once."""
    for case in CASES:
        entries = case.settings["entries"]
        for worker in range(case.settings["task"]["workers"]):
            assert [what for what, w in entries if w == worker] == [
                ("pull", "push")[i % 2] for i in range(sum(w == worker for _, w in entries))]
        assert len(case.steps[-1][0]["table"]) == 8
        assert case.settings["refused"] or served(case)[-1]["waited"].value == 0
    assert [w["waited"].value for w in served(NAMES["bounded-waits"]) if w["waited"].value]
    assert not [w for w in served(NAMES["bounded-goes-on"]) if w["waited"].value]


class Few(Fraction):
    """A number that float32 holds: an operation whose result it does not hold raises."""

    def __new__(cls, value=0):
        self = super().__new__(cls, value)
        if Fraction(float(np.float32(float(self)))) != self:
            raise ArithmeticError(f"float32 does not hold {self}")
        return self


for _name in ("add", "radd", "sub", "rsub", "mul", "rmul", "truediv", "rtruediv"):
    setattr(Few, f"__{_name}__", lambda a, b, f=getattr(Fraction, f"__{_name}__"): Few(f(a, Fraction(b))))


def few(array):
    return np.vectorize(lambda x: Few(float(x)), otypes=[object])(array)


def cells_of(name, part):
    """Yield (key, array) of each row of Rows, or of an array."""
    yield from ([((name, int(k)), row) for k, row in zip(part.ids, part.rows)] if isinstance(part, Rows) else
                [((name, None), part)])


def by_definition(case):
    """Return the last pull's {(name, id): value} of an asynchronous case without momentum, in exact arithmetic."""
    task, cells, old = case.settings["task"], {}, {}
    rate, lam = few(task["rate"]), few(task["constants"].get("lam", 0))
    for name, part in first_values(case).items():
        cells.update({key: [few(value), 0] for key, value in cells_of(name, part)})
    for (what, worker), (parts, *_) in zip(case.settings["entries"], case.steps):
        if what == "pull":
            keys = [("weight", None), *(("table", k) for k in parts["table"].tolist())]
            old[worker] = {key: tuple(cells[key]) for key in keys}
            continue
        for name, part in parts.items():
            for key, g in cells_of(name, part):
                (value, updates), (then, before), g = cells[key], old[worker][key], few(g)
                if task["correction"] == "staleness-aware":
                    g = g / max(1, updates - before)
                elif task["correction"] == "dc-asgd":
                    g = g + lam * g * g * (value - then)
                cells[key] = [value - rate * g, updates + 1]
    return {key: cells[key][0] for key in keys}


@pytest.mark.parametrize("name", ["asynchronous", "staleness-aware", "dc-asgd", "ids-2^31"])
def test_the_rule_is_exact_arithmetic(name):
    """And no number on the way has more digits than float32: so the tolerance is zero."""
    answer, exact = served(NAMES[name])[-1], by_definition(NAMES[name])
    found = {key: value for part in ("weight", "table") for key, value in cells_of(part, answer[part].value)}
    assert all((found[key] == value.astype(float)).all() for key, value in exact.items()) and len(exact) == len(found) == 9
    assert not any(answer[part].tolerance.any() for part in ("weight", "table"))


def test_numbers_that_float32_does_not_hold_are_seen():
    with pytest.raises(ArithmeticError, match="float32 does not hold"):
        Few(1) / 3
    with pytest.raises(ArithmeticError):
        few(np.array([2.0**24])) + few(np.array([1.0]))


@pytest.mark.parametrize("name", ["adagrad", "dc-asgd-adaptive"])
def test_the_bound_holds_and_is_not_idle(name):
    verdict = run_local(Reference, 1, [NAMES[name]]).verdicts[0]
    assert verdict.status == "passed" and 1e-3 < verdict.worst_ratio < 0.5


def test_pulls_and_trainings_have_one_bound():
    """After n updates 16 (n + 1) eps T: n is 0 before the first update, and 1 after it."""
    eps, pulled = np.finfo("float32").eps, served(NAMES["adagrad"])[0]["weight"]
    assert (pulled.tolerance == 16 * eps * np.abs(pulled.value)).all()
    case = case_named("update/adagrad", 1)
    training = TrainingAnswers(case, Semantics())
    trained = training.answer(Place(0, 0, case.variable("weight")))
    assert (trained.tolerance == 32 * eps * training.after(0)[1]["weight"]).all()


@pytest.mark.parametrize("count", [1, 2, 3])
def test_our_owner(count):
    """However many owners there are."""
    class Plain:
        def describe(self):
            return Semantics(supports=tuple(s for s in SUPPORTS if s != "row-keys"))

        def serve(self, arrivals):
            return play(Owners(arrivals, count), arrivals.entries)

    verdicts = run_local(lambda world: Plain(), 1, CASES).verdicts
    assert [(v.case, v.why) for v in verdicts if v.status == "failed"] == []
    assert [v.case for v in verdicts if v.status == "skipped"] == ["owner/ids-2^31"]


def test_every_fault_is_a_mutant():
    """But for those that docs/bugs.md has not: corrections that are not made at all, and versions."""
    codes = {code for m in MUTANTS if m.kind == "owner" for code in m.codes}
    untold = {code_of(kind) for kind, number in KINDS.items() if not number}
    assert codes == {*map(code_of, KINDS), "unpulled-rows"} - untold
    found = {v.case: v.diagnosis.code for v in run_local(serving(Uncorrected), 1, CASES).failed}
    assert found["owner/staleness-aware"] == found["owner/dc-asgd"] == "uncorrected"


class TellsOtherVersions(Reference):
    """version(entries before the answer, worker, updates): what each answer says."""

    def serve(self, arrivals):
        pulls = [(k, worker) for k, (what, worker, _) in enumerate(arrivals.entries) if what == "pull"]
        return [(waited, values | {"version": np.array(self.version(arrivals.entries[:k + waited + 1], worker,
                                                                    values["version"]))})
                for (waited, values), (k, worker) in zip(super().serve(arrivals), pulls)]


@pytest.mark.parametrize("code, version", [
    ("version-counts-pushes", lambda self, entries, worker, right: sum(what == "push" for what, *_ in entries)),
    ("version-of-worker", lambda self, entries, worker, right: sum(
        (what, who) == ("push", worker) for what, who, _ in entries)),
    ("version-ahead", lambda self, entries, worker, right: right + 1)], ids=["pushes", "worker", "ahead"])
def test_a_wrong_version_is_named(code, version):
    make = type("Wrong", (TellsOtherVersions,), {"version": version})
    found = run_local(make, 1, [NAMES["softsync-versions"], NAMES["backup-versions"]]).failed
    assert {v.diagnosis.code for v in found} == {code}


def test_what_waits_for_ever_is_told():
    @serving
    class Never(Owner):
        def answers(self, worker):
            return worker != 1 and super().answers(worker)

    verdict = run_local(Never, 1, [NAMES["asynchronous"]]).verdicts[0]
    assert verdict.status == "failed" and "worker 1 pushes, but its pull, entry 1, was not answered yet" in verdict.why

    class First(Reference):
        def serve(self, arrivals):
            return super().serve(arrivals)[:1]

    verdict = run_local(First, 1, [NAMES["asynchronous"]]).verdicts[0]
    assert "the adapter gave 1 answers to 8 pulls" in verdict.why


def test_a_refusal_is_one_of_all_ranks():
    case = case_named("owner/unpulled", 2)
    right = [Target(Reference(None)).answer(case, rank) for rank in range(2)]
    assert judge(case, Semantics(), right)[0].status == "passed" and all("not pulled" in a.error for a in right)
    other = Target(Reference(None)).answer(case_named("owner/dc-asgd", 2), 0)
    assert judge(case, Semantics(), [right[0], Answer(other.steps)])[0].status == "failed"
