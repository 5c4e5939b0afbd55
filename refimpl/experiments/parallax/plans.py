"""The plan of a cell, and the cost model's prediction for it.

The naive parameter server is TensorFlow's, as the paper found it: one server a machine; each variable whole, in the
model's order, on the server with the fewest bytes so far (docs/paper.md, Mechanisms); every worker pulls and pushes for
itself. Here a machine's first rank is its server.
"""

from refimpl.experiments.cells.cell import Cell
from refimpl.experiments.cells.proportions import emulated_network
from refimpl.experiments.replay import Profile, ReplayData, ReplayModel
from refimpl.plan import Placement, Plan, make_plan
from refimpl.plan.predict import Predictor
from refimpl.plan.sample import take_sample
from refimpl.strategies import ServedDense, ServedRows
from refimpl.training.options import Options
from refimpl.training.planning.planning import placing
from refimpl.transport.machines import Machines


def naive_plan(variables, machines: Machines, allreduce: str = "direct") -> Plan:
    """Return the naive server's plan for V = ranks. machines: the ranks of each. Local."""
    load, placements = [0] * len(machines), []
    for variable in variables:
        least = load.index(min(load))
        load[least] += variable.nbytes
        strategy = ServedRows if variable.sparse else ServedDense
        placements.append(Placement(variable.name, strategy(owners=(machines[least][0],))))
    ranks = sum(map(len, machines))
    return Plan("ps", ranks, ranks, allreduce, tuple(placements), machines, local_aggregation=False)


def plan_of(architecture: str, options: dict, variables, machines: Machines, chosen: dict | None = None) -> Plan:
    """Return the plan of one of ARCHITECTURES for V = ranks. options: of the trainer.  chosen: by auto. Local."""
    if architecture == "naive ps":
        return naive_plan(variables, machines, options["allreduce"])
    ranks, given = sum(map(len, machines)), Options(**options)
    return make_plan(variables, given.architecture, ranks, ranks, allreduce=given.allreduce, machines=machines,
                     strategies=chosen if architecture == "auto" else None, **placing(given))


def predicted_exchange(cell: Cell, profile: Profile, strategies: dict[str, str] | None = None) -> float:
    """Return the predicted seconds of a step's exchanges, without overlap. Local.

    The rows are the profile's, the rate is the cell's.  strategies: of each variable, as the cell's plan had them.
    """
    network = emulated_network(*cell.cluster[:3])
    model, data = ReplayModel(cell.workload.make_model().variables, profile), ReplayData(profile, cell.ranks)
    sample = take_sample(model, data, cell.seed, steps=len(profile.entries))
    plan = plan_of(cell.contender, cell.trainer_options, model.variables, network.machines, strategies)
    return Predictor(model.variables, sample, network).seconds(plan)
