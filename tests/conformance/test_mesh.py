"""Layers cut over groups: what the cases are about; mutants, some that nobody had in mind among them; false alarms."""

import numpy as np
import pytest

from mutants.groups import stepping
from mutants.planted import MUTANTS
from mutants.run import cases_for, run_mutant
from refimpl.conformance.adapters.reference import Reference
from refimpl.conformance.case import with_numbers
from refimpl.conformance.cases import RANKS, case_named, mesh
from refimpl.conformance.diagnose import summary
from refimpl.conformance.runner import run_local
from refimpl.conformance.semantics import Semantics
from refimpl.conformance.space.deviation import code_of
from refimpl.conformance.space.mesh import KINDS, BiasByEveryMember, Stepped
from refimpl.plain.model_parallel.mesh import Mesh

PLANTED = [m for m in MUTANTS if m.kind == "mesh"]


@pytest.mark.parametrize("ranks", [4, 8])
def test_no_number_has_more_digits_than_float32(ranks, monkeypatch):
    """Added up by size, with relu and dropout letting all pass: in the finest unit still below 2**24."""
    weights, dropout = mesh.weights_of, mesh.dropout_of
    monkeypatch.setattr(mesh, "weights_of", lambda case: {n: abs(a) for n, a in weights(case).items()})
    monkeypatch.setattr(mesh, "dropout_of", lambda case: {n: [np.full_like(a, mesh.KEPT) for a in scales]
                                                          for n, scales in dropout(case).items()})
    for case in (case for case in cases_for(ranks, "mesh") if case.exact):
        for parts in case.steps[0]:
            for what, arrays in parts.items():
                monkeypatch.setitem(parts, what, [with_numbers(a, np.abs) for a in arrays])
        found = {n: max(np.abs(want.value).max() for want in of_ranks.values())
                 for n, of_ranks in Stepped(case, Semantics()).found[0].items()}
        assert found.pop("loss") * mesh.NORMALISER < 2**53
        assert max(found.values()) * mesh.NORMALISER / mesh.RATE < 2**24, case.name


@pytest.mark.parametrize("groups, members", [(2, 2), (4, 2), (2, 4)])
@pytest.mark.parametrize("mutant", PLANTED, ids=lambda m: m.words)
@pytest.mark.thorough("2-2")
def test_a_planted_bug_is_seen_and_named(mutant, groups, members):
    case = "clip" if mutant.codes[0].startswith("norm") else "dropout"
    row = run_mutant(mutant, groups * members, f"{groups}x{members}-{case}")
    assert row["killed"] and row["named"], row["diagnosis"]


def test_every_fault_is_a_mutant():
    assert {code for m in PLANTED for code in m.codes} == {code_of(kind) for kind in KINDS}
    assert {d.code for d in Stepped.alternatives(cases_for(8, "mesh"))} == {code_of(kind) for kind in KINDS}
    assert {d.code for d in Stepped.alternatives([case_named("mesh/4x1-dropout", 4)])} == {"parts-not-summed"}


@pytest.mark.parametrize("ranks", [2, 4, 8])
@pytest.mark.thorough("2")
def test_no_fault_hides(ranks):
    """Each fault that concerns a case moves some number beyond its tolerance, and no other kind moves all alike.

    Where G is K, a part that counts G times counts K times.
    """
    for case in cases_for(ranks, "mesh"):
        right, alike = Stepped(case, Semantics()).found[0], {}
        for deviation in Stepped.alternatives([case]):
            if wrong := Stepped(case, Semantics(), (deviation,)).found:
                parts = [(wrong[0][n][r].value, want) for n, of_ranks in right.items() for r, want in of_ranks.items()]
                assert any((np.abs(value - want.value) > want.tolerance).any() for value, want in parts), deviation
                numbers = tuple(np.float32(value).tobytes() for value, _ in parts)
                codes = {alike.setdefault(numbers, deviation).code, deviation.code}
                assert len(codes) == 1 or codes == {"norm-parts-k-times", "norm-parts-g-times"}, case.name


def test_one_layer_is_named():
    class Once(Mesh):
        def drawn(self, layer, dropout):
            width = dropout.shape[1] // self.members
            self.calls = getattr(self, "calls", 0) + 1
            return dropout[:, :width] if self.calls % 4 in (1, 2) else super().drawn(layer, dropout)

    [verdict] = run_local(stepping(Once), 4, [case_named("mesh/2x2-dropout", 4)]).failed
    assert verdict.diagnosis.words.endswith("drops the same columns as member 0: fc1")


class Unscaled(Mesh):
    """Backwards nothing is dropped."""

    def backward(self, layer, saved, grad):
        x, scale = saved
        return super().backward(layer, (x, (scale != 0).astype(scale.dtype)), grad)


class BiasOfFirst(Mesh):
    def bias(self, layer):
        width = layer.outputs // self.members
        return self.task.start[layer.bias][:width] if layer.cut else super().bias(layer)


class NextColumnsBack(Mesh):
    def own_columns(self, grads):
        member, self.member = self.member, (self.member + 1) % self.members
        result = super().own_columns(grads)
        self.member = member
        return result


class LastRoundLost(Mesh):
    def one_round(self, j):
        before = dict(self.gradients)
        super().one_round(j)
        if j == self.members - 1:
            self.gradients.update({n: g for n, g in before.items() if self.is_cut(n)})


class OwnDropoutForAll(Mesh):
    """The key of this rank's microbatch is used for everybody's rows."""

    def forward(self, layer, x, v):
        size = len(self.task.microbatches)
        return super().forward(layer, x, self.task.first + v % size)


class LossOfGroup(Mesh):
    def run(self):
        result = super().run()
        return {**result, "loss": sum(self.of_group(self.loss)) / self.task.normaliser}


class ClippedFirst(Mesh):
    """Each rank clips its own gradient, then they are summed."""

    def summed(self, gradients):
        scale = np.float32(1 if self.task.clip is None else min(1.0, self.task.clip / super().norm(gradients)))
        return super().summed({n: g * scale for n, g in gradients.items()})

    def norm(self, gradients):
        return self.task.clip


class TargetsOfAnotherRound(Mesh):
    def one_round(self, j):
        given = self.task.microbatches
        size = len(given) // self.members
        object.__setattr__(self.task, "microbatches", [(x, given[(i + size) % len(given)][1])
                                                       for i, (x, _) in enumerate(given)])
        super().one_round(j)
        object.__setattr__(self.task, "microbatches", given)


class HalfOfThePartials(Mesh):
    """Only neighbours in pairs add up their partial sums."""

    def add_partials(self, layer, partials):
        everyone = self.of_group(partials)
        first = self.member // 2 * 2
        return {v: sum(theirs[v] for theirs in everyone[first:first + 2]) for v in partials}


ASIDE = (Unscaled, BiasOfFirst, NextColumnsBack, LastRoundLost, OwnDropoutForAll, LossOfGroup, ClippedFirst,
         TargetsOfAnotherRound, HalfOfThePartials)
"""Bugs that were written when cases and diagnosis were done, which know nothing of them."""


@pytest.mark.parametrize("bug", ASIDE, ids=lambda bug: bug.__name__)
@pytest.mark.thorough
def test_a_bug_that_nobody_had_in_mind_is_seen(bug):
    """And is given no name, since none would be right: the report says where it begins."""
    cases = [case for case in cases_for(4, "mesh") if case.name.endswith(("-dropout", "-clip"))]
    diagnoses = summary(run_local(stepping(bug), 4, cases).failed)
    assert diagnoses and all(diagnosis.vague for diagnosis, _ in diagnoses)


class Wide(Mesh):
    """Computes in float64, and rounds once."""

    def __init__(self, world, task):
        super().__init__(world, task)
        self.values = {n: a.astype(np.float64) for n, a in self.values.items()}

    def run(self):
        return {n: np.float32(a) if n != "loss" else a for n, a in super().run().items()}


class Backwards(Mesh):
    """Takes the rounds, and adds everything up, from the last to the first."""

    def one_round(self, j):
        super().one_round(self.members - 1 - j)

    def summed(self, gradients):
        everyone = list(enumerate(self.world.allgather(gradients)))[::-1]
        return {n: sum(theirs[n] for rank, theirs in everyone if self.holds(n, rank)) for n in gradients}


class OneRound(Mesh):
    """All microbatches go at once: a modulo layer of one round; clips by norm + 1e-6."""

    def turn(self, j):
        return range(self.task.first, self.task.first + len(self.task.microbatches) * (j == 0))

    def norm(self, gradients):
        return super().norm(gradients) + 1e-6


RIGHT = [Mesh, Wide, Backwards, OneRound]


@pytest.mark.parametrize("ranks", RANKS)
@pytest.mark.parametrize("make", RIGHT, ids=lambda make: make.__name__)
@pytest.mark.thorough("-2")
def test_nobody_is_accused_who_is_right(make, ranks):
    assert [v.why for v in run_local(stepping(make), ranks, cases_for(ranks, "mesh")).failed] == []


def test_the_bound_of_a_clipped_step_is_not_idle():
    [verdict] = run_local(Reference, 2, [case_named("mesh/1x2-clip", 2)]).verdicts
    assert verdict.status == "passed" and 1e-3 < verdict.worst_ratio < 0.5


def test_a_part_that_is_missing_or_of_another_shape_is_told():
    class Whole(Mesh):
        def run(self):
            return {**super().run(), "fc2.weight": self.task.start["fc2.weight"]}

    class Silent(Mesh):
        def run(self):
            result = super().run()
            return {n: a for n, a in result.items() if n != "fc1.bias" or self.member == 0}

    for make, words in ((Whole, "rank 0 gave fc2.weight of member 0 of shape (8, 8), expected (4, 8)"),
                        (Silent, "rank 1 gave nothing for fc1.bias of member 1")):
        [verdict] = run_local(stepping(make), 2, [case_named("mesh/1x2-two", 2)]).failed
        assert words in verdict.why


def test_which_member_which_element():
    [verdict] = run_local(stepping(BiasByEveryMember), 2, [case_named("mesh/1x2-two", 2)]).failed
    [finding] = [f for f in verdict.findings if f.variable == "fc1.bias of member 0"]
    assert finding.words == "fc1.bias of member 0[1] is 2.140625, expected 2.171875 (step 0, rank 0)"
