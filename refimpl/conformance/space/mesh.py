"""Deviations of layers cut over groups: each a whole step with one fault."""

from dataclasses import replace

import numpy as np

from refimpl.conformance.cases.mesh import layers_of
from refimpl.conformance.rules.aggregate import Expected
from refimpl.conformance.rules.mesh import Fault, stepped
from refimpl.conformance.space.deviation import Deviation, Impossible, Machine, Place

WORDS = {
    "parts-divided": "the gradient of a part that is cut is 1/K of ours: averaged over the world, not over the G ranks "
                     "that hold it, or divided by the K members of a group",
    "parts-multiplied": "the gradient of a part that is cut is K times ours: a sum over the rows of K members is taken "
                        "for that of one",
    "parts-of-all-members": "the gradients of a layer's parts are added to each other: summed over all N ranks, not "
                            "over the G that hold the same part",
    "parts-not-summed": "the gradient of a part is its own group's alone: it is not summed over the ranks that hold it",
    "whole-over-holders": "the gradient of a whole layer is summed over ranks of the same member number alone, not "
                          "over all N",
    "norm-parts-k-times": "the norm counts each part K times: each member adds up the whole group's",
    "norm-parts-g-times": "the norm counts each part G times: once for every rank that holds it",
    "norm-whole-k-times": "the norm counts whole layers K times: once for every member of a group",
    "norm-every-copy": "the norm counts every copy: all N ranks' squares are added up",
    "norm-of-own-part": "the norm leaves parts out: each member takes its own part alone, and the members clip "
                        "differently",
    "norm-without-parts": "the norm leaves out the layers that are cut",
    "input-gradient-k-times": "the gradient that leaves the cut layers for those below is K times ours: partial sums "
                              "are added up by every member, and then once more",
    "members-far-apart": "the members of a group are not neighbours: rank r holds the part of member r // G, not r % K",
    "rows-to-wrong-owner": "gradients of rows come back to another member than the one whose rows they are",
    "rounds-out-of-order": "gradients of rows come back in another round: they meet the inputs of other rows",
    "columns-out-of-order": "columns are gathered in another order than that of the members",
    "dropout-by-local-column": "dropout is drawn by local column: each member drops what member 0 does",
    "bias-by-every-member": "the bias is added by every member: K times",
    "partial-sums-not-added": "the gradient of a layer's input is one member's partial sum: those of the others are "
                              "not added",
}

COLUMNS = "columns-out-of-order"
BY_LAYER = (COLUMNS, "dropout-by-local-column", "bias-by-every-member", "partial-sums-not-added")
"""Faults that one layer may have and another not."""


class Stepped(Machine):
    """The answers to a case of kind mesh: each rank's parts after a step."""

    def __init__(self, case, semantics, deviations=()):
        super().__init__(case, semantics, deviations)
        fault = deviations[0].fault or Fault() if deviations else Fault()
        possible = fault == Fault() or fault in set(faults(case))
        self.parts = stepped(case, fault) if possible else None

    def expected(self) -> list[dict]:
        """Return name -> what each rank that has it should hold after the step. Local."""
        return [{name: next(iter(ranks.values())) for name, ranks in self.parts[0].items()}]

    def answer(self, place: Place) -> Expected:
        """Return a part on a rank. Local. Raises Impossible where the fault has nothing to change."""
        if self.parts is None:
            raise Impossible
        want = self.parts[place.step][place.variable.name][place.rank]
        if not self.deviations:
            return want
        eps = 64 * np.finfo(np.float32).eps  # a fault's numbers need not be exact
        return replace(want, tolerance=np.maximum(want.tolerance, eps * np.abs(want.value)))


def faults(case):
    """Yield the faults that a case can show. Local."""
    groups, members = case.settings["mesh"]
    names = [layer.name for layer in layers_of(case) if layer.cut]
    turns = [*range(1, members), *([0] if members > 2 else [])]
    for kind in WORDS:
        if members == 1 and kind not in ("parts-not-summed", "norm-parts-g-times", "norm-every-copy"):
            continue
        if groups == 1 and kind in ("parts-not-summed", "norm-parts-g-times", "norm-every-copy", "members-far-apart"):
            continue
        if groups == members and kind == "norm-parts-g-times":
            continue
        if kind.startswith("norm-") and case.settings["clip"] is None:
            continue
        if kind == "dropout-by-local-column" and not case.settings["dropout"]:
            continue
        anywhere = [""] if not kind.startswith(BY_LAYER) else ["", *names]
        off = turns if kind in ("rows-to-wrong-owner", "rounds-out-of-order", COLUMNS) else [1]
        for layer in anywhere:
            for turn in [*off, None] if kind == COLUMNS else off:
                yield Fault(kind, layer, turn)


def deviations(cases) -> list[Deviation]:
    """Return the faults that some cases can show; where layers may differ, in all of them, or in one. Local."""
    square = all(len(set(case.settings["mesh"])) == 1 for case in cases)
    found = []
    for fault in dict.fromkeys(fault for case in cases for fault in faults(case)):
        where = f": {fault.layer}" if fault.layer else ""
        if fault.kind == "norm-parts-k-times" and square:
            where = "; or G times, once for every rank that holds it: G is K here"
        found.append(Deviation(fault.kind, f"{WORDS[fault.kind]}{where}", fault=fault))
    return found
