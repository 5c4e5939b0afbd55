"""What a plan's file does to the other options, and what it is refused beside."""

import json
from dataclasses import replace
from types import SimpleNamespace

import pytest

from models import Variable
from models.recipe import Recipe
import refimpl.strategies  # noqa: F401  (a plan knows the strategies that were imported)
from refimpl.cli.asked.options import with_plan
from refimpl.cli.told.said import introduce
from refimpl.cli.train import _changes
from refimpl.plan import make_plan
from refimpl.training.options import Options

PLAN = make_plan([Variable("rows", (12, 5), sparse=True), Variable("dense", (8,))], "hybrid", 3, 8).to_json()


@pytest.fixture
def path(tmp_path):
    file = tmp_path / "plan.json"
    file.write_text(json.dumps(PLAN))
    return str(file)


def test_a_plan_ends_what_a_resumed_run_did_to_its_own(path):
    before = Options(search_partitions=True, hot_rows=7, steps=9, codec={"dense": "bf16"}).to_json()
    after = Options.from_json({**before, **with_plan({"plan": path})})
    assert json.loads(json.dumps(after.plan)) == json.loads(json.dumps(PLAN)) and after.architecture == "hybrid"
    assert (after.search_partitions, after.hot_rows, after.steps) == (False, 0, 9)


@pytest.mark.parametrize("name, value, said", [
    ("balance", "popularity", "--balance"), ("hot_rows", 3, "--hot-rows"), ("architecture", "ps", "--architecture"),
    ("search_partitions", True, "--search-partitions"), ("allreduce", "ring", "--allreduce")])
def test_what_a_plan_decides_is_refused_beside_it(path, name, value, said):
    with pytest.raises(ValueError, match=f"leave out {said}, or edit the plan"):
        with_plan({"plan": path, name: value})
    assert with_plan({name: value}) == {name: value, "plan": None}


@pytest.mark.parametrize("algorithm, told", [("ring", True), ("direct", False)])
def test_a_plan_whose_bits_depend_on_the_ranks_is_told(algorithm, told, capsys):
    recipe = SimpleNamespace(model="lm", preset="tiny", data="synthetic:300", microbatches=8, microbatch_size=3)
    introduce(SimpleNamespace(size=3), recipe, Options(plan={**PLAN, "allreduce": algorithm}), None)
    assert ("note: ring adds in another order" in capsys.readouterr().out) is told


def test_what_a_resumed_run_does_otherwise_is_told(capsys):
    recipe, before = Recipe("lm", "synthetic:300", sizes={"hidden": 8}), Options(plan=PLAN)
    assert _changes((recipe, before), (recipe, before)) == []
    now = replace(recipe, sizes={"hidden": 9}), replace(before, architecture="ps", plan=None, steps=9)
    changes = _changes((recipe, before), now)
    assert changes == ["sizes {...} (was {...})", "architecture ps (was hybrid)", "plan None (was {...})",
                       "steps 9 (was 300)"]
    introduce(SimpleNamespace(size=3), *now, None, changes)
    assert "\nresumed with sizes {...} (was {...}), architecture ps (was hybrid), plan None" in capsys.readouterr().out
