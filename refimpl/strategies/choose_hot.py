"""Choose the number of hot rows H of each variable on the server: the H with the least predicted exchange time.

The cost of a hot row does not depend on its popularity. The cost of a cold row does, because each rank that touches it
pulls and pushes it. If rows are numbered by falling popularity, the time falls with H as long as row H costs more cold
than hot; then it rises. In other tables H = 0 is best. Predicted seconds leave out exchanges that overlap with
computation, such as pulls. So an H is refused if the busiest network card would carry more bytes.
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
GAIN = 1e-3  # part of the predicted time: a replica that gains less is not worth its memory


@dataclass(frozen=True)
class HotForecast:
    """The prediction for one variable, with the others as planned: seconds of a step's exchanges.

    hot, replica: the choice; hot is 0 if hot rows do not save time.  seconds: with it; ``without``: without hot rows.
    coverage: fraction of the pulled rows that are hot.  curve: (H, replica, seconds) of all candidates, by H; seconds
    are infinite if the busiest card would carry more than without hot rows.
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
    """Return the plan with the hot rows that are predicted to save time, and the forecasts. Local.

    It goes through the partitioned variables in the model's order. For each it tries H = 0, the powers of two and all
    rows, then values between the neighbours of the best. The same sample and network always give the same choice.
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
    """Return the plan with ``hot`` hot rows of one variable; other variables do not change."""
    return plan.replaced({name: with_hot_rows(plan, {name: hot}, replica).strategies[name]})


def _coverage(sample, plan, name, hot) -> float:
    """Return the fraction of rows pulled (by machines, or by ranks) that are below ``hot``."""
    if not sample.steps:
        return 0.0
    counts = sample.popularity(name, plan.on_machines, plan.local_aggregation)
    return float(counts[:hot].sum() / max(1, counts.sum()))


def describe_hot(forecasts) -> str:
    """Return one line for each variable: its hot rows, and their predicted gain. Local."""
    lines = []
    for f in forecasts:
        if f.hot:
            told = (f"the first {f.hot} of {f.rows} rows, {f.coverage:.0%} of the pulls, go {f.replica}: predicted "
                    f"{1e3 * f.without:.3g} -> {1e3 * f.seconds:.3g} ms a step")
        else:
            told = f"none: no number of them is predicted to save time ({1e3 * f.without:.3g} ms a step)"
        lines.append(f"hot rows of {f.variable}: {told}")
    return "\n".join(lines)
