"""``--architecture auto``: gives each variable the strategy with which the predicted step is shortest.

    1. Predict the step under hybrid, ps and allreduce (sparse rows by allgather, or sent whole). Begin with the best.
    2. Give a variable another strategy if this makes the predicted step at least a twentieth shorter, until no such
       change is left. Smaller gains are below the accuracy of predictions.
    3. If several codecs are allowed, take the best one if it makes the step at least a twentieth shorter. Repeat 2.

So no architecture is predicted to be faster than auto. A sparse variable with a high α is sent whole: the bytes of the
server grow with α, those of an allreduce do not. The same sample and network always give the same plan.
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
              "allreduce (sparse as dense)": (ARCHITECTURES["allreduce"][0], AS_DENSE["allreduce"]),
              "ps": ARCHITECTURES["ps"]}
"""Architectures to compare: name -> (strategy of dense variables, of sparse ones). Of equals the first is taken."""

GAIN = 0.05  # relative to the step: changes with a smaller gain were more often slower than faster
ROUNDING = 1e-9  # relative to the step: smaller differences count as 0


@dataclass(frozen=True)
class Candidate:
    """One strategy for a variable. alone: predicted seconds of this variable's exchange alone.

    step: predicted seconds of all exchanges, the others as planned.  card_bytes: bytes of this variable in and out of
    the busiest card in a step; on one machine, bytes between its ranks.
    """

    alone: float
    step: float
    card_bytes: int


@dataclass(frozen=True)
class Forecast:
    """A variable, its strategy, and the cost of each candidate. alpha: α of a worker.  alpha_machine: α' of a machine.

    crossing: the α above which sending this variable whole is faster than the server; None: it is dense, or there is
    none.
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
    """A plan, and the numbers from which it was chosen. totals: predicted seconds of a step, by architecture.

    busiest: bytes that the busiest owner serves / the mean over the owners.  predictor: the ``Predictor`` that was
    used.
    layers, batch: the layers of a model that has a list of them, and the examples of a step (``plan.layers``).
    """

    plan: Plan
    forecasts: tuple[Forecast, ...]
    totals: dict[str, float]
    network: Network
    steps: tuple[int, ...]
    busiest: float
    predictor: Predictor = field(compare=False, repr=False)
    layers: tuple[Layer, ...] = ()
    batch: int = 0


def choose_plan(variables, sample: Sample, network: Network, microbatches: int, *, architecture: str = "auto",
                allreduce: str = "auto", sparse_as_dense: bool = False, shard_optimizer: bool = False,
                whole: bool = False, balance: str = "bytes", **placing) -> Chosen:
    """Return the plan with the fewest predicted seconds in a step, and the numbers from which it was chosen. Local.

    architecture: if it is not auto, its plan is only predicted, not chosen.  balance: see ``Options``.
    whole: whether tables with an α near 1 are sent whole under "hybrid", see ``with_whole``.
    placing: further arguments of ``make_plan``. Its codec may allow several, as "bf16/integers:8".
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
    """Plans that give each variable a strategy, and their predicted seconds. making: arguments of ``make_plan``."""

    def __init__(self, variables, predictor: Predictor, making: dict):
        self.variables, self.predictor, self.making = variables, predictor, making
        self.known: dict[tuple, float] = {}

    def plan(self, strategies: dict[str, str]) -> Plan:
        """Return the plan that gives each variable this strategy: variable -> name."""
        return make_plan(self.variables, "auto", strategies=strategies, **self.making)

    def seconds(self, strategies: dict[str, str]) -> float:
        """Return the predicted seconds of the exchanges of such a plan."""
        key = tuple(strategies[v.name] for v in self.variables)
        if key not in self.known:
            self.known[key] = self.predictor.seconds(self.plan(strategies))
        return self.known[key]


def _improve(variables, trial, chosen):
    """Return strategies of which no single change makes the predicted step shorter by the part GAIN."""
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
    """Return the trials with the best allowed codec for each entry, if it makes the predicted step shorter by GAIN."""
    for which, codecs in allowed.items():
        tried = {codec: Trials(trial.variables, trial.predictor, trial.making | {
            "codec": trial.making["codec"] | {which: codec}}) for codec in codecs}
        best = min(codecs, key=lambda codec: tried[codec].seconds(chosen))
        if tried[best].seconds(chosen) < (1 - GAIN) * trial.seconds(chosen):
            trial = tried[best]
    return trial


def _algorithm(variables, allreduce, network, microbatches):
    """Return the named algorithm. For "auto": the one that is predicted fastest for the dense variables, or for all."""
    layout = Layout.of([v for v in variables if not v.sparse] or variables)
    if allreduce.startswith(AUTO_ON):
        raise ValueError(f"--allreduce {allreduce} needs a training that names its architecture, for example train "
                         "--architecture hybrid: a plan predicts costs only for network cards")
    if allreduce != "auto":
        return allreduce
    itemsize = np.dtype(layout.dtype).itemsize
    return choose_algorithm(microbatches, layout.size, itemsize, network.machines, network).algorithm


def _forecast(variable, chosen, trial, predictor, sample, reason) -> Forecast:
    """Return the forecast of a variable. reason: why it has its strategy; None: see ``_reason``.

    crossing = α (T' - t) / (T - t): T of the server, T' of sending it whole, t of the server's messages without any
    bytes.
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
    """Return why a variable has its strategy: the seconds that the next best one would add, and the crossing α."""
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
    """Return P -> the busiest rank's part of all served bytes under hybrid, for each P in counts. Local.

    sample: rows that a training touches (``take_sample``). The part is between 1 / N and 1, for N ranks.
    """
    pulls, ranks = sample.pulls_per_step(machines), sum(map(len, machines))
    shares = {}
    for partitions in counts:
        plan = make_plan(variables, "hybrid", ranks, sample.microbatches, partitions=partitions, scheme=scheme,
                         machines=machines)
        loads = owner_loads(variables, plan, pulls)
        shares[partitions] = float(np.max(loads) / max(1.0, np.sum(loads)))
    return shares
