"""What the cost model says of a cell before it runs: seconds of its exchanges, from the profile's rows and the rate."""

from refimpl.experiments.parallax.cell import Cell
from refimpl.experiments.parallax.naive import naive_plan
from refimpl.experiments.parallax.network import emulated_network
from refimpl.experiments.parallax.profile import Profile
from refimpl.experiments.parallax.replay import ReplayData, ReplayModel
from refimpl.plan import make_plan
from refimpl.plan.predict import Predictor
from refimpl.plan.sample import take_sample


def predicted_exchange(cell: Cell, profile: Profile, ways: dict[str, str] | None = None) -> float:
    """Return the predicted seconds of a step's exchanges, nothing overlapping. Local.

    ways: of each variable, as the cell's plan had them: what auto chose.
    """
    options = cell.trainer_options
    network = emulated_network(*cell.cluster)
    model, data = ReplayModel(cell.workload.make_model().variables, profile), ReplayData(profile, cell.ranks)
    sample = take_sample(model, data, cell.seed, steps=len(profile.entries))
    placing = {name: options[name] for name in ("partitions", "scheme", "local_aggregation") if name in options}
    chosen = {"strategies": ways} if options["architecture"] == "auto" else {}
    if cell.architecture == "naive ps":
        plan = naive_plan(model.variables, network.machines, options["allreduce"])
        return Predictor(model.variables, sample, network).seconds(plan)
    plan = make_plan(model.variables, options["architecture"], cell.ranks, cell.ranks, allreduce=options["allreduce"],
                     machines=network.machines, **placing, **chosen)
    return Predictor(model.variables, sample, network).seconds(plan)
