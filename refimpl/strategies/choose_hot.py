"""How many hot rows? For each variable on the server, the H with the least predicted seconds of a step's exchanges.

A hot row costs the same whoever touches it; a cold one costs what its popularity says: pulled and pushed by each rank
that touches it, from one owner. So with rows numbered by falling popularity the time falls with H as long as a row is
touched by more ranks than its replica is worth, and rises after that; where they are not, H = 0 stays the best.
Predicted seconds leave out what overlaps, as pulls do with computation: so the busiest card must not carry more either.
"""

import math
from dataclasses import dataclass

import numpy as np

from refimpl.collectives.simulation.network import Network
from refimpl.plan.plan import Plan
from refimpl.plan.predict import Predictor
from refimpl.plan.sample import Sample
from refimpl.strategies.hot_rows import REPLICAS, with_hot_rows

FINE = 8  # H that are tried on each side of the best power of two
GAIN = 1e-3  # of the predicted time: for less, a replica is not worth its memory


@dataclass(frozen=True)
class HotForecast:
    """What was predicted for one variable, the others as planned: seconds of a step's exchanges.

    hot, replica: chosen; 0 rows where none pay.  seconds: with them, ``without``: with none.
    coverage: part of the pulled rows that are hot ones.  curve: (H, replica, seconds) of all that were tried, by H;
    seconds are infinite where the busiest card would carry more than without hot rows.
    """

    variable: str
    rows: int
    hot: int
    replica: str
    seconds: float
    without: float
    coverage: float
    curve: tuple[tuple[int, str, float], ...]


def choose_hot_rows(plan: Plan, variables, sample: Sample, network: Network) -> tuple[Plan, list[HotForecast]]:
    """Return the plan with the hot rows that are predicted to pay, and the forecasts. Local.

    One partitioned variable after the other, in the model's order: H from 0 over the powers of two to all rows, then
    between the neighbours of the best. Deterministic: one sample and network, one choice.
    """
    predictor, forecasts = Predictor(variables, sample, network), []
    for variable in plan.partitioned(variables):
        plan, forecast = _choose(plan, variable, predictor)
        forecasts.append(forecast)
    return plan, forecasts


def _choose(plan, variable, predictor):
    """Return the plan with this variable's best H, and its forecast."""
    name, rows = variable.name, variable.shape[0]
    powers = {1 << bit for bit in range(rows.bit_length())}
    tried = {}
    most = predictor.card_bytes(_with(plan, name, 0, REPLICAS[0]), variable)

    def seconds(hot, replica):
        if (hot, replica) not in tried:
            other = _with(plan, name, hot, replica)
            fits = predictor.card_bytes(other, variable) <= most
            tried[hot, replica] = predictor.seconds(other) if fits else math.inf
        return tried[hot, replica]

    without = seconds(0, REPLICAS[0])
    best, replica = min(((hot, replica) for replica in REPLICAS for hot in sorted({rows} | powers) if hot <= rows),
                        key=lambda pair: (seconds(*pair), pair), default=(0, REPLICAS[0]))
    around = np.linspace(best / 2, min(2 * best, rows), 2 * FINE + 1).round().astype(int).tolist()
    best = min((hot for hot in around if hot), key=lambda hot: (seconds(hot, replica), hot), default=0)
    if not best or seconds(best, replica) > (1 - GAIN) * without:
        best, replica = 0, REPLICAS[0]
    curve = tuple(sorted((hot, replica, time) for (hot, replica), time in tried.items()))
    coverage = _coverage(predictor.sample, plan, name, best)
    forecast = HotForecast(name, rows, best, replica, seconds(best, replica), without, coverage, curve)
    return _with(plan, name, best, replica), forecast


def _with(plan, name, hot, replica):
    """Return the plan with so many hot rows of one variable, the others as they are."""
    return plan.replaced({name: with_hot_rows(plan, {name: hot}, replica).strategies[name]})


def _coverage(sample, plan, name, hot) -> float:
    """Return which part of all pulls, by machines or ranks, is of rows below ``hot``."""
    if not sample.steps:
        return 0.0
    counts = sample.popularity(name, plan.on_machines, plan.local_aggregation)
    return float(counts[:hot].sum() / max(1, counts.sum()))


def describe_hot(forecasts) -> str:
    """Return one line a variable: its hot rows, and what they are predicted to gain. Local."""
    lines = []
    for f in forecasts:
        if f.hot:
            told = (f"the first {f.hot} of {f.rows} rows, {f.coverage:.0%} of the pulls, go {f.replica}: predicted "
                    f"{1e3 * f.without:.3g} -> {1e3 * f.seconds:.3g} ms a step")
        else:
            told = f"none: no number of them is predicted to pay ({1e3 * f.without:.3g} ms a step)"
        lines.append(f"hot rows of {f.variable}: {told}")
    return "\n".join(lines)
