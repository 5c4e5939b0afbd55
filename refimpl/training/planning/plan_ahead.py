"""Plan a training before it runs: no rank is started, and nothing is computed or sent."""

from dataclasses import replace

from models.layer import layers_of
from models.recipe import build, recipe_of
from refimpl.collectives.simulation.network import Network
from refimpl.plan.choose import Chosen, choose_plan
from refimpl.plan.codecs import check_codecs
from refimpl.plan.mesh import with_mesh
from refimpl.plan.sample import STEPS
from refimpl.training.options import Options
from refimpl.training.planning.planning import AUTO, consistent, goes_whole, mesh_for, placing, sample_of


def plan_ahead(model: str, network: Network, sampled_steps: int = STEPS, **chosen) -> Chosen:
    """Return the plan of a training of ``model``, by its name, on a network, and the numbers behind the choice.

    chosen: fields of Recipe and Options that differ from the defaults (the default architecture is "auto" here).
    sampled_steps: steps whose rows are read from the data. Local.
    Raises ValueError as ``build``, ``Options`` and ``choose_plan`` do, OSError for data that cannot be read.
    """
    recipe, complete = recipe_of(model, {"microbatches": max(8, network.ranks), "architecture": "auto", **chosen})
    options = Options(**complete)
    trained, data, _ = build(recipe, options.seed)
    sample = sample_of(trained, data, options.seed, sampled_steps)
    found = choose_plan(trained.variables, sample, network, data.microbatches, architecture=options.architecture,
                        allreduce=options.allreduce, sparse_as_dense=options.sparse_as_dense,
                        shard_optimizer=options.shard_optimizer, whole=goes_whole(options), balance=options.balance,
                        **placing(options))
    mesh = mesh_for(trained, data, network)[0] if options.mesh == AUTO else options.mesh
    plan = with_mesh(consistent(found.plan, options), trained.variables, mesh)
    check_codecs(plan, trained.variables, optimizer=options.optimizer, clip_norm=options.clip_norm)
    return replace(found, plan=plan, layers=layers_of(trained), batch=recipe.microbatches * recipe.microbatch_size)
