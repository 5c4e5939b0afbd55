"""``--architecture auto``: each variable the way that adds least to the predicted step, the others going as they go.

    1. predict the step under allreduce (sparse rows gathered, or sent whole), ps and hybrid; begin with the fastest
    2. give a variable another way wherever that makes the predicted step at least a twentieth shorter, until no such
       change is left: predictions are not finer, and a way for one small variable alone costs messages of its own

So no architecture is predicted to be faster than auto. A sparse variable whose α is high comes to go "as-dense": what
the server moves grows with α, what the allreduce moves does not. Deterministic: one sample and network, one plan.
"""

from dataclasses import dataclass, replace

import numpy as np

from refimpl.collectives.auto import choose_algorithm
from refimpl.collectives.simulation.network import Network
from refimpl.gradients import Layout
from refimpl.plan.balance import imbalance, owner_loads
from refimpl.plan.placement import WAYS, Plan, make_plan
from refimpl.plan.predict import Predictor
from refimpl.plan.sample import Sample

BEGINNINGS = {"hybrid": ("allreduce", "server"), "allreduce": ("allreduce", "allgather"),
              "allreduce, sparse as dense": ("allreduce", "as-dense"), "ps": ("server", "server")}
"""What the predicted step is compared with, the first of equals taken: name -> (way of dense, of sparse variables)."""

GAIN = 0.05  # a part of the step's time: a change for less is more often measured slower than faster
ROUNDING = 1e-9  # a part of the step's time: less is no difference


@dataclass(frozen=True)
class Road:
    """One variable on one way. alone: predicted seconds of it by itself.  step: of all, the others going as planned.

    card_bytes: of a step through the card that has most of them, in and out (between ranks, on one machine).
    """

    alone: float
    step: float
    card_bytes: int


@dataclass(frozen=True)
class Forecast:
    """A variable, and what each way that it can go would cost. alpha: of a worker; alpha_machine: of a machine.

    crossing: the α at which the server would take as long as sending it whole, each by itself; None: dense, or never.
    """

    variable: str
    sparse: bool
    nbytes: int
    way: str
    roads: dict[str, Road]
    alpha: float = 1.0
    alpha_machine: float = 1.0
    crossing: float | None = None
    reason: str = ""


@dataclass(frozen=True)
class Chosen:
    """A plan, what it was chosen from, and the predicted seconds of the exchanges of a step under each architecture.

    busiest: bytes that the busiest owner serves, over the owners' mean.
    """

    plan: Plan
    forecasts: tuple[Forecast, ...]
    totals: dict[str, float]
    network: Network
    steps: tuple[int, ...]
    busiest: float = 1.0


def choose_plan(variables, sample: Sample, network: Network, microbatches: int, *, architecture: str = "auto",
                allreduce: str = "auto", sparse_as_dense: bool = False, balance: str = "bytes", **placing) -> Chosen:
    """Return the plan with the least predicted seconds a step, and all that it was chosen from. Local.

    architecture: another than auto is not chosen, only forecast.  balance: see ``Options``.
    placing: partitions, scheme, local_aggregation, ... of ``make_plan``.
    Raises ValueError as ``make_plan`` does, or if variables of several dtypes would share an arena.
    """
    variables = list(variables)
    making = {"ranks": network.ranks, "microbatches": microbatches, "machines": network.machines,
              "allreduce": _algorithm(variables, allreduce, network, microbatches), **placing}
    pulls = sample.pulls_per_step(network.machines, placing.get("local_aggregation", True))
    if balance == "popularity":
        making["popularity"] = pulls
    predictor = Predictor(variables, sample, network)
    trial = Trials(variables, predictor, making)
    totals = {name: trial.seconds({v.name: kinds[v.sparse] for v in variables}) for name, kinds in BEGINNINGS.items()}
    if architecture == "auto":
        ways = _improve(variables, trial, _beginning(variables, totals))
        totals = {"auto": trial.seconds(ways), **totals}
        plan = trial.plan(ways)
    else:
        plan = make_plan(variables, architecture, sparse_as_dense=sparse_as_dense, **making)
        ways = {p.variable: p.way for p in plan.placements}
    forecasts = tuple(_forecast(v, ways, trial, predictor, sample) for v in variables)
    return Chosen(plan, forecasts, totals, network, sample.steps, imbalance(owner_loads(variables, plan, pulls)))


class Trials:
    """Plans that give each variable a way, and their predicted seconds. making: what else ``make_plan`` is told."""

    def __init__(self, variables, predictor: Predictor, making: dict):
        self.variables, self.predictor, self.making = variables, predictor, making
        self.known: dict[tuple, float] = {}

    def plan(self, ways: dict[str, str]) -> Plan:
        return make_plan(self.variables, "auto", ways=ways, **self.making)

    def seconds(self, ways: dict[str, str]) -> float:
        key = tuple(ways[v.name] for v in self.variables)
        if key not in self.known:
            self.known[key] = self.predictor.seconds(self.plan(ways))
        return self.known[key]


def _beginning(variables, totals):
    best = min(totals, key=totals.get)
    return {v.name: BEGINNINGS[best][v.sparse] for v in variables}


def _improve(variables, trial, ways):
    """Return the ways from which no single change makes the predicted step shorter by GAIN."""
    seconds, changed = trial.seconds(ways), True
    while changed:
        changed = False
        for variable in variables:
            for way in WAYS[variable.sparse]:
                other = {**ways, variable.name: way}
                if trial.seconds(other) < (1 - GAIN) * seconds:
                    ways, seconds, changed = other, trial.seconds(other), True
    return ways


def _algorithm(variables, allreduce, network, microbatches):
    """Return the algorithm: as named, or what is predicted fastest for all dense variables (else for all)."""
    summed = [v for v in variables if not v.sparse] or variables
    layout = Layout.of(summed)
    if allreduce != "auto":
        return allreduce
    itemsize = np.dtype(layout.dtype).itemsize
    return choose_algorithm(microbatches, layout.size, itemsize, network.machines, network).algorithm


def _forecast(variable, ways, trial, predictor, sample) -> Forecast:
    roads = {}
    for way in WAYS[variable.sparse]:
        other = {**ways, variable.name: way}
        plan = trial.plan(other)
        placement = plan.placement(variable.name)
        roads[way] = Road(predictor.alone(plan, placement), trial.seconds(other), predictor.card_bytes(plan, placement))
    found = Forecast(variable.name, variable.sparse, variable.nbytes, ways[variable.name], roads)
    if variable.sparse and sample.steps:
        plan = trial.plan({**ways, variable.name: "server"})
        placement = plan.placement(variable.name)
        alpha = sample.alpha(variable.name, plan.ranks)
        found = replace(found, alpha=alpha, alpha_machine=sample.alpha_machine(variable.name, plan.on_machines),
                        crossing=_crossing(alpha, roads, predictor.without_bytes(plan, placement)))
    return replace(found, reason=_reason(found))


def _crossing(alpha, roads, fixed) -> float | None:
    """Return α (T' - t) / (T - t), T of the server, T' as dense, t what the server takes for no bytes at all."""
    moved = roads["server"].alone - fixed
    return alpha * max(0.0, roads["as-dense"].alone - fixed) / moved if moved > 0 else None


def _reason(found: Forecast) -> str:
    """Return why a variable goes its way: what the next best way would add to the step, and on which side α lies."""
    others = [(road.step - found.roads[found.way].step, way) for way, road in found.roads.items() if way != found.way]
    more, way = min(others)
    if abs(more) <= ROUNDING * found.roads[found.way].step:
        return f"{way} would take as long"
    told = f"{way} would add {1e3 * more:.3g} ms" if more > 0 else f"{way} would save only {-1e3 * more:.3g} ms"
    if not found.sparse or found.crossing is None:
        return told
    if found.crossing > 1:
        return f"whole is slower at any α; {told}"
    sign = ">" if found.alpha > found.crossing else "<"
    return f"α {found.alpha:.3g} {sign} {found.crossing:.3g}, from where on whole is faster; {told}"
