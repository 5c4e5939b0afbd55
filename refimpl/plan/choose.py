"""``--architecture auto``: each variable gets the strategy that adds least to the predicted step, the others given.

    1. predict the step under allreduce (sparse rows gathered, or sent whole), ps and hybrid; begin with the fastest
    2. give a variable another strategy wherever that makes the predicted step at least a twentieth shorter, until no
       such change is left: predictions are not finer, and a strategy for one small variable alone costs messages of
       its own
    3. where several codecs are allowed, take the one that makes the predicted step shortest, by at least a twentieth;
       then do 2 again, with these codecs

So no architecture is predicted to be faster than auto. A sparse variable whose α is high comes to be sent whole: what
the server moves grows with α, what the allreduce moves does not. Deterministic: one sample and network, one plan.
"""

from dataclasses import dataclass, field, replace

import numpy as np

from models.layer import Layer
from refimpl.collectives.auto import choose_algorithm
from refimpl.collectives.choose import AUTO_ON
from refimpl.collectives.simulation.network import Network
from refimpl.gradients import Layout
from refimpl.gradients.codecs import IDENTITY
from refimpl.plan.codecs import codecs_to_choose
from refimpl.plan.partitions.balance import imbalance, owner_loads
from refimpl.plan.make import ARCHITECTURES, AS_DENSE, make_plan
from refimpl.plan.plan import Plan
from refimpl.plan.predict import Predictor
from refimpl.plan.sample import Sample
from refimpl.plan.strategy import names_of, strategy_of
from refimpl.plan.whole import with_whole
from refimpl.transport.machines import Machines

BEGINNINGS = {"hybrid": ARCHITECTURES["hybrid"], "allreduce": ARCHITECTURES["allreduce"],
              "allreduce, sparse as dense": (ARCHITECTURES["allreduce"][0], AS_DENSE["allreduce"]),
              "ps": ARCHITECTURES["ps"]}
"""What the predicted step is compared with, the first of equals taken: name -> (strategy of dense, of sparse)."""

GAIN = 0.05  # a part of the step's time: a change for less is more often measured slower than faster
ROUNDING = 1e-9  # a part of the step's time: less is no difference


@dataclass(frozen=True)
class Candidate:
    """One strategy for a variable. alone: predicted seconds of it by itself.  step: of all, the others as planned.

    card_bytes: of a step through the card that has most of them, in and out (between ranks, on one machine).
    """

    alone: float
    step: float
    card_bytes: int


@dataclass(frozen=True)
class Forecast:
    """A variable, its strategy, and what each candidate would cost. alpha: of a worker; alpha_machine: of a machine.

    crossing: the α at which the server would take as long as sending it whole, each by itself; None: dense, or never.
    """

    variable: str
    sparse: bool
    nbytes: int
    strategy: str
    candidates: dict[str, Candidate]
    alpha: float = 1.0
    alpha_machine: float = 1.0
    crossing: float | None = None
    reason: str = ""


@dataclass(frozen=True)
class Chosen:
    """A plan, what it was chosen from, and the predicted seconds of the exchanges of a step under each architecture.

    busiest: bytes that the busiest owner serves, over the owners' mean.  predictor: which predicted it.
    layers, batch: of a model that says its layers, these, and the examples of a step (``plan.layers``).
    """

    plan: Plan
    forecasts: tuple[Forecast, ...]
    totals: dict[str, float]
    network: Network
    steps: tuple[int, ...]
    busiest: float = 1.0
    predictor: Predictor | None = field(default=None, compare=False, repr=False)
    layers: tuple[Layer, ...] = ()
    batch: int = 0


def choose_plan(variables, sample: Sample, network: Network, microbatches: int, *, architecture: str = "auto",
                allreduce: str = "auto", sparse_as_dense: bool = False, shard_optimizer: bool = False,
                whole: bool = False, balance: str = "bytes", **placing) -> Chosen:
    """Return the plan with the least predicted seconds a step, and all that it was chosen from. Local.

    architecture: another than auto is not chosen, only forecast.  balance: see ``Options``.
    whole: whether tables whose α is near 1 go whole under "hybrid", see ``with_whole``.
    placing: partitions, scheme, local_aggregation, ... of ``make_plan``.  Its codec may allow several: bf16/integers:8.
    Raises ValueError as ``make_plan`` does, or if variables of several dtypes would share an arena.
    """
    variables, allowed = list(variables), codecs_to_choose(placing.get("codec") or {})
    placing["codec"] = {**(placing.get("codec") or {}), **dict.fromkeys(allowed, IDENTITY)}
    making = {"ranks": network.ranks, "microbatches": microbatches, "machines": network.machines,
              "allreduce": _algorithm(variables, allreduce, network, microbatches), **placing}
    pulls = sample.pulls_per_step(network.machines, placing.get("local_aggregation", True))
    if balance == "popularity":
        making["popularity"] = pulls
    predictor = Predictor(variables, sample, network)
    trial, reasons = Trials(variables, predictor, making), {}
    totals = {name: trial.seconds({v.name: kinds[v.sparse] for v in variables}) for name, kinds in BEGINNINGS.items()}
    if architecture == "auto":
        fastest = BEGINNINGS[min(totals, key=totals.get)]
        chosen = _improve(variables, trial, {v.name: fastest[v.sparse] for v in variables})
        totals = {"auto": trial.seconds(chosen), **totals}
        if allowed:
            trial = _with_codecs(trial, chosen, allowed)
            chosen = _improve(variables, trial, chosen)
            totals = {"auto": trial.seconds(chosen), "auto, not encoded": totals.pop("auto"), **totals}
        plan = trial.plan(chosen)
    else:
        plan = make_plan(variables, architecture, sparse_as_dense=sparse_as_dense, shard_optimizer=shard_optimizer,
                         **making)
        if whole:
            plan, reasons = with_whole(plan, variables, sample)
        chosen = {name: strategy.name for name, strategy in plan.strategies.items()}
        if shard_optimizer or reasons:
            title = f"{architecture}{', some tables whole' * bool(reasons)}{', optimizer sharded' * shard_optimizer}"
            totals = {title: trial.seconds(chosen), **totals}
    forecasts = tuple(_forecast(v, chosen, trial, predictor, sample, reasons.get(v.name)) for v in variables)
    busiest = imbalance(owner_loads(variables, plan, pulls))
    return Chosen(plan, forecasts, totals, network, sample.steps, busiest, predictor)


class Trials:
    """Plans that give each variable a strategy, and their predicted seconds. making: what else ``make_plan`` takes."""

    def __init__(self, variables, predictor: Predictor, making: dict):
        self.variables, self.predictor, self.making = variables, predictor, making
        self.known: dict[tuple, float] = {}

    def plan(self, strategies: dict[str, str]) -> Plan:
        """Return the plan that gives each variable this strategy: variable -> name."""
        return make_plan(self.variables, "auto", strategies=strategies, **self.making)

    def seconds(self, strategies: dict[str, str]) -> float:
        """Return the predicted seconds of its exchanges."""
        key = tuple(strategies[v.name] for v in self.variables)
        if key not in self.known:
            self.known[key] = self.predictor.seconds(self.plan(strategies))
        return self.known[key]


def _improve(variables, trial, chosen):
    """Return the strategies from which no single change makes the predicted step shorter by GAIN."""
    seconds, changed = trial.seconds(chosen), True
    while changed:
        changed = False
        for variable in variables:
            for name in names_of(variable.sparse, automatic=True):
                other = {**chosen, variable.name: name}
                if trial.seconds(other) < (1 - GAIN) * seconds:
                    chosen, seconds, changed = other, trial.seconds(other), True
    return chosen


def _with_codecs(trial: "Trials", chosen, allowed: dict[str, list[str]]) -> "Trials":
    """Return the trials with one of the allowed codecs for each, if that makes the predicted step shorter by GAIN."""
    for which, codecs in allowed.items():
        tried = {codec: Trials(trial.variables, trial.predictor, trial.making | {
            "codec": trial.making["codec"] | {which: codec}}) for codec in codecs}
        best = min(codecs, key=lambda codec: tried[codec].seconds(chosen))
        if tried[best].seconds(chosen) < (1 - GAIN) * trial.seconds(chosen):
            trial = tried[best]
    return trial


def _algorithm(variables, allreduce, network, microbatches):
    """Return the algorithm: as named, or what is predicted fastest for all dense variables (else for all)."""
    layout = Layout.of([v for v in variables if not v.sparse] or variables)
    if allreduce.startswith(AUTO_ON):
        raise ValueError(f"--allreduce {allreduce} is chosen by train where the architecture is named (--architecture "
                         "hybrid): what a plan costs is predicted by cards")
    if allreduce != "auto":
        return allreduce
    itemsize = np.dtype(layout.dtype).itemsize
    return choose_algorithm(microbatches, layout.size, itemsize, network.machines, network).algorithm


def _forecast(variable, chosen, trial, predictor, sample, reason) -> Forecast:
    """Return the forecast of a variable. reason: why it has its strategy; None: see ``_reason``.

    crossing = α (T' - t) / (T - t): T of the server, T' sent whole, t what the server takes for no bytes at all.
    """
    candidates = {}
    for name in dict.fromkeys([*names_of(variable.sparse, automatic=True), chosen[variable.name]]):
        other = {**chosen, variable.name: name}
        plan = trial.plan(other)
        candidates[name] = Candidate(predictor.seconds(plan, [variable]), trial.seconds(other),
                                     predictor.card_bytes(plan, variable))
    found = Forecast(variable.name, variable.sparse, variable.nbytes, chosen[variable.name], candidates)
    if variable.sparse and sample.steps:
        classes = {name: strategy_of(name, variable.sparse) for name in candidates}
        served = next(name for name, strategy in classes.items() if not strategy.replicated)
        whole = next(name for name, strategy in classes.items() if strategy.arena([variable]) is not None)
        plan = trial.plan({**chosen, variable.name: served})
        alpha, fixed = sample.alpha(variable.name, plan.ranks), predictor.without_bytes(plan, variable)
        moved = candidates[served].alone - fixed
        found = replace(found, alpha=alpha, alpha_machine=sample.alpha_machine(variable.name, plan.on_machines),
                        crossing=alpha * max(0.0, candidates[whole].alone - fixed) / moved if moved > 0 else None)
    return replace(found, reason=reason or _reason(found))


def _reason(found: Forecast) -> str:
    """Return why a variable has its strategy: what the next best would add to the step, and on which side α lies."""
    own = found.candidates[found.strategy].step
    more, name = min((other.step - own, name) for name, other in found.candidates.items() if name != found.strategy)
    if abs(more) <= ROUNDING * own:
        return f"{name} would take as long"
    told = f"{name} would add {1e3 * more:.3g} ms" if more > 0 else f"{name} would save only {-1e3 * more:.3g} ms"
    if not found.sparse or found.crossing is None:
        return told
    if found.crossing > 1:
        return f"sending it whole is slower at any α; {told}"
    return f"above α = {found.crossing:.3g} sending it whole is faster; {told}"


def busiest_shares(variables, sample: Sample, machines: Machines, counts, scheme: str = "interleaved") -> dict:
    """Return P -> the part of all served bytes that the busiest rank serves, under hybrid, for each P of counts. Local.

    sample: rows that a training touches (``take_sample``). At least 1/N, for N ranks; 1 where one has everything.
    """
    pulls, ranks = sample.pulls_per_step(machines), sum(map(len, machines))
    shares = {}
    for partitions in counts:
        plan = make_plan(variables, "hybrid", ranks, sample.microbatches, partitions=partitions, scheme=scheme,
                         machines=machines)
        loads = owner_loads(variables, plan, pulls)
        shares[partitions] = float(np.max(loads) / max(1.0, np.sum(loads)))
    return shares
