"""A plan made before the training: the one that the training itself would make."""

import pytest

from models.recipe import Recipe, build
from refimpl.collectives.simulation.network import Network
from refimpl.plan import make_plan
from refimpl.training.planning.plan_ahead import plan_ahead
from refimpl.transport.machines import in_blocks

NETWORK = Network(in_blocks(6, 2), latency=1e-4, bandwidth_out=1e6, bandwidth_in=1e6)
TINY = dict(data="synthetic:300", preset="tiny")


def test_it_is_the_plan_of_the_training():
    found = plan_ahead("lm", NETWORK, architecture="hybrid", allreduce="hierarchical", **TINY)
    model, _, _ = build(Recipe("lm", microbatch_size=8, **TINY), 0)
    assert found.plan == make_plan(model.variables, "hybrid", 6, 8, allreduce="hierarchical", scheme="interleaved",
                                   machines=NETWORK.machines)
    assert {f.variable for f in found.forecasts} == {v.name for v in model.variables}


def test_auto_is_asked_for_unless_another_is_and_every_rank_has_a_microbatch():
    many = Network(in_blocks(9, 3), latency=1e-4, bandwidth_out=1e6, bandwidth_in=1e6)
    found = plan_ahead("lm", many, sampled_steps=2, **TINY)
    assert found.plan.architecture == "auto" and found.plan.microbatches == 9 and len(found.steps) == 2
    assert found.totals["auto"] == min(found.totals.values())


def test_what_recipe_or_options_refuse():
    with pytest.raises(TypeError, match="wheels"):
        plan_ahead("lm", NETWORK, wheels=4, **TINY)
    with pytest.raises(ValueError, match="no architecture 'ring'"):
        plan_ahead("lm", NETWORK, architecture="ring", **TINY)
