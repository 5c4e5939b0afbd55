"""How many hot rows? For each variable on the server, the H with the least predicted seconds of a step's exchanges.

A hot row costs the same whoever touches it; a cold one costs what its popularity says: pulled and pushed by each rank
that touches it, from one owner. So with rows numbered by falling popularity the time falls with H as long as a row is
touched by more ranks than its replica is worth, and rises after that; where they are not, H = 0 stays the best.
Predicted seconds leave out what overlaps, as pulls do with computation: so the busiest card must not carry more either.
"""

import math
from dataclasses import dataclass, replace

import numpy as np

from refimpl.collectives.simulation.network import Network
from refimpl.plan.hot_rows import apart, hot_name, split_lists, split_rows
from refimpl.plan.placement import WAYS_OF_HOT, Plan
from refimpl.plan.predict import Predictor
from refimpl.plan.repartition import served
from refimpl.plan.sample import Sample

FINE = 8  # H that are tried on each side of the best power of two
GAIN = 1e-3  # of the predicted time: for less, a replica is not worth its memory


@dataclass(frozen=True)
class HotForecast:
    """What was predicted for one variable, the others as planned: seconds of a step's exchanges.

    hot, way: chosen; 0 rows where none pay.  seconds: with them, ``without``: with none.
    coverage: part of the pulled rows that are hot ones.  curve: (H, way, seconds) of all that were tried, by H;
    seconds are infinite where the busiest card would carry more than without hot rows.
    """

    variable: str
    rows: int
    hot: int
    way: str
    seconds: float
    without: float
    coverage: float
    curve: tuple[tuple[int, str, float], ...]


class HotPredictor:
    """Predicts plans with hot rows, remembering what does not change from one to the next. Local."""

    def __init__(self, variables, sample: Sample, network: Network):
        self.variables, self.sample, self.network = list(variables), sample, network
        self.times: dict = {}
        self.known: dict = {}

    def card_bytes(self, plan: Plan, name: str) -> int:
        """Return the bytes of a variable and step through the busiest card, at most: its parts' busiest added up."""
        parts, predictor = self._apart(plan)
        return sum(predictor.card_bytes(parts, p) for p in parts.placements if p.variable in (name, hot_name(name)))

    def seconds(self, plan: Plan) -> float:
        """Return the predicted seconds of a step's exchanges, hot rows and all."""
        parts, predictor = self._apart(plan)
        return predictor.seconds(parts)

    def _apart(self, plan):
        """Return the plan of two variables for each with hot rows, and what predicts it."""
        parts, both = apart(plan, self.variables)
        touched = tuple(split_rows(plan, step, split_lists) for step in self.sample.touched)
        rows = {v.name: v.shape[0] for v in both if v.sparse}
        predictor = Predictor(both, replace(self.sample, rows=rows, touched=touched), self.network)
        predictor.times = self.times  # of a schedule on this network, for any number of elements
        predictor.known = self.known
        return parts, predictor


def choose_hot_rows(plan: Plan, variables, sample: Sample, network: Network) -> tuple[Plan, list[HotForecast]]:
    """Return the plan with the hot rows that are predicted to pay, and the forecasts. Local.

    One served sparse variable after the other, in the model's order: H from 0 over the powers of two to all rows, then
    between the neighbours of the best. Deterministic: one sample and network, one choice. (After the idea that hot keys
    are replicated and cold ones served: PAPER.md has no such rule.)
    """
    predictor, forecasts = HotPredictor(variables, sample, network), []
    for variable in served(plan, variables):
        plan, forecast = _choose(plan, variable, predictor)
        forecasts.append(forecast)
    return plan, forecasts


def _choose(plan, variable, predictor):
    """Return the plan with this variable's best H, and its forecast."""
    name, rows = variable.name, variable.shape[0]
    powers = {1 << bit for bit in range(rows.bit_length())}
    tried = {}

    most = predictor.card_bytes(_with(plan, name, 0, WAYS_OF_HOT[0]), name)

    def seconds(hot, way):
        if (hot, way) not in tried:
            other = _with(plan, name, hot, way)
            tried[hot, way] = predictor.seconds(other) if predictor.card_bytes(other, name) <= most else math.inf
        return tried[hot, way]

    without = seconds(0, WAYS_OF_HOT[0])
    best, way = min(((hot, way) for way in WAYS_OF_HOT for hot in sorted({rows} | powers) if hot <= rows),
                    key=lambda pair: (seconds(*pair), pair), default=(0, WAYS_OF_HOT[0]))
    around = np.linspace(best / 2, min(2 * best, rows), 2 * FINE + 1).round().astype(int).tolist()
    best = min((hot for hot in around if hot), key=lambda hot: (seconds(hot, way), hot), default=0)
    if not best or seconds(best, way) > (1 - GAIN) * without:
        best, way = 0, WAYS_OF_HOT[0]
    curve = tuple(sorted((hot, way, time) for (hot, way), time in tried.items()))
    coverage = _coverage(predictor.sample, plan, name, best)
    forecast = HotForecast(name, rows, best, way, seconds(best, way), without, coverage, curve)
    return _with(plan, name, best, way), forecast


def _with(plan, name, hot, way):
    """Return the plan with so many hot rows of one variable."""
    return replace(plan, placements=tuple(replace(p, hot=hot, hot_way=way) if p.variable == name else p
                                          for p in plan.placements))


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
            told = (f"the first {f.hot} of {f.rows} rows, {f.coverage:.0%} of the pulls, go {f.way}: predicted "
                    f"{1e3 * f.without:.3g} -> {1e3 * f.seconds:.3g} ms a step")
        else:
            told = f"none: no number of them is predicted to pay ({1e3 * f.without:.3g} ms a step)"
        lines.append(f"hot rows of {f.variable}: {told}")
    return "\n".join(lines)
