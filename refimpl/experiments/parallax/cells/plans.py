"""The plan and the network of a cell, and what the cost model says of it before it runs.

The naive parameter server is TensorFlow's, as the paper found it: one server a machine; each variable whole, in the
model's order, on the server with the fewest bytes so far (docs/paper.md, Mechanisms); every worker pulls and pushes for
itself. Here a machine's first rank is its server.
"""

import os
from pathlib import Path

from refimpl.collectives.simulation.network import Network
from refimpl.experiments.cluster import parse_rate
from refimpl.experiments.parallax.cells.cell import Cell
from refimpl.experiments.parallax.replay.model import ReplayData, ReplayModel
from refimpl.experiments.parallax.replay.profile import Profile
from refimpl.plan import Placement, Plan, make_plan
from refimpl.plan.predict import Predictor
from refimpl.plan.sample import take_sample
from refimpl.strategies import ServedDense, ServedRows
from refimpl.training.options import Options
from refimpl.training.planning.planning import placing
from refimpl.transport.machines import Machines, in_blocks

LATENCY, LATENCY_WITHIN = 100e-6, 50e-6
MESSAGE = 3e-6
"""Seconds of a core that one message costs its sender or its receiver."""
MEMORY, REDUCTION = 1e9, 2e9
"""Bytes a second, of messages within a machine and of sums, of a core that one rank has to itself."""


def emulated_network(machines: int, ranks_per_machine: int, rate) -> Network:
    """Return the network of such a cluster on this machine: ranks that share a core wait for each other. Local.

    Stated, not measured: 48 processes that take turns on two cores time each other's turns, not the card.
    """
    ranks = machines * ranks_per_machine
    turns = max(1.0, ranks / (os.cpu_count() or 1))
    return Network(in_blocks(ranks, ranks_per_machine), LATENCY, parse_rate(rate) / 8, parse_rate(rate) / 8,
                   LATENCY_WITHIN, MEMORY, REDUCTION / turns, MESSAGE * turns)


def network_file(machines: int, ranks_per_machine: int, rate) -> Path:
    """Return the name of the file in which trainers find it."""
    return Path(f"network-{machines}x{ranks_per_machine}-{rate}.json")


def naive_plan(variables, machines: Machines, allreduce: str = "direct") -> Plan:
    """Return the naive server's plan, V = ranks. machines: the ranks of each. Local."""
    load, placements = [0] * len(machines), []
    for variable in variables:
        least = load.index(min(load))
        load[least] += variable.nbytes
        strategy = ServedRows if variable.sparse else ServedDense
        placements.append(Placement(variable.name, strategy(owners=(machines[least][0],))))
    ranks = sum(map(len, machines))
    return Plan("ps", ranks, ranks, allreduce, tuple(placements), machines, local_aggregation=False)


def plan_of(architecture: str, options: dict, variables, machines: Machines, chosen: dict | None = None) -> Plan:
    """Return the plan of one of ARCHITECTURES, V = ranks. options: of the trainer.  chosen: by auto. Local."""
    if architecture == "naive ps":
        return naive_plan(variables, machines, options["allreduce"])
    ranks, given = sum(map(len, machines)), Options(**options)
    return make_plan(variables, given.architecture, ranks, ranks, allreduce=given.allreduce, machines=machines,
                     strategies=chosen if architecture == "auto" else None, **placing(given))


def predicted_exchange(cell: Cell, profile: Profile, strategies: dict[str, str] | None = None) -> float:
    """Return the predicted seconds of a step's exchanges, nothing overlapping. Local.

    The rows are the profile's, the rate is the cell's.  strategies: of each variable, as the cell's plan had them.
    """
    network = emulated_network(*cell.cluster)
    model, data = ReplayModel(cell.workload.make_model().variables, profile), ReplayData(profile, cell.ranks)
    sample = take_sample(model, data, cell.seed, steps=len(profile.entries))
    plan = plan_of(cell.architecture, cell.trainer_options, model.variables, network.machines, strategies)
    return Predictor(model.variables, sample, network).seconds(plan)
