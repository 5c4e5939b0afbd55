"""Meshes that a training cannot have, and plans that contradict themselves: refused in words."""

import json
from types import SimpleNamespace

import pytest

from models.perceptron import Perceptron
from refimpl.plan import Plan, make_plan
from refimpl.plan.mesh import with_mesh
from refimpl.plan.validate import check_plan
from refimpl.training.checked.model import CheckedModel
from refimpl.training.consistency import CONSISTENCIES
from refimpl.training.mesh.rounds import MeshStep

MODEL = Perceptron(10, (16, 8), 3, 4)


def plan_of(mesh="1x4", model=MODEL, architecture="allreduce", ranks=4, microbatches=16):
    return with_mesh(make_plan(model.variables, architecture, ranks, microbatches), model.variables, mesh)


@pytest.mark.parametrize("changes, words", [
    (dict(mesh="5x5"), "--mesh 5x5: that is 25 ranks, and there are 4: give 4x1"),
    (dict(mesh="two"), "--mesh two: it should read DATAxMODEL"), (dict(mesh="0x1"), "it should read DATAxMODEL"),
    (dict(model=Perceptron(10, (16, 8), 3, 1)), "no layer of this model is computed in column blocks.* 4x1"),
    (dict(mesh="1x3", ranks=3),  # of blocks that are a power of two more would not help
     "3 ranks cannot share the 4 column blocks of 'fc1.weight' evenly; with 3 ranks give 3x1$"),
    (dict(microbatches=17), "give --microbatches 16 or 20"),
    (dict(architecture="ps"), "works only with --architecture allreduce, hybrid or auto"),
])
def test_what_cannot_be_cut_is_refused(changes, words):
    with pytest.raises(ValueError, match=words):
        plan_of(**changes)


def give(name, **fields):
    """Return a change of a plan's JSON: what it says of a variable."""
    return lambda plan: [p for p in plan["placements"] if p["variable"] == name][0].update(fields)


def whole(*names):
    """Return a change of a plan's JSON: these variables are not cut."""
    def change(plan):
        for placement in plan["placements"]:
            if placement["variable"] in names:
                placement["strategy"] = "allreduce"
                placement.pop("members", None)
    return change


@pytest.mark.parametrize("change, words", [
    (lambda plan: plan.update(mesh=[4, 1]), "a group of the mesh 4x1 has 1"),
    (lambda plan: plan.update(mesh=[3, 5]), "the mesh 3x5 has 15 ranks"),
    (lambda plan: plan.update(mesh=[4]), "give two numbers"),
    (give("fc2.bias", members=1), "fc2.bias is cut over 1 rank,"),
    (give("fc1.bias", members=3), "3 members cannot share 4 column blocks"),
    (whole("fc1.bias"), "without its bias"),
    (whole("fc1.weight", "fc1.bias"), "only the first of these can be cut"),
    (whole("fc1.weight", "fc1.bias", "fc2.weight", "fc2.bias"), "no variable has the strategy columns"),
])
def test_a_plan_whose_mesh_contradicts_its_parts_is_refused(change, words):
    plan = json.loads(json.dumps(plan_of().to_json()))
    change(plan)
    with pytest.raises(ValueError, match=words):
        plan = check_plan(Plan.from_json(plan), MODEL.variables, 4, 16, ((0, 1, 2, 3),), consistencies=CONSISTENCIES)
        MeshStep(CheckedModel(MODEL), SimpleNamespace(plan=plan, comm=SimpleNamespace(rank=0), exchange_of={}), 0)
