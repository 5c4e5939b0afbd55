"""A linear programme, written line by line, solved by SciPy's HiGHS, and checked with fractions."""

from fractions import Fraction

import numpy as np
from scipy.optimize import LinearConstraint, linprog, milp
from scipy.sparse import coo_array

DENOMINATOR = 10**5
"""The largest denominator with which a number of the solver is turned into a fraction. The result is checked."""

NODES = 200
"""The most nodes of the search tree in a search for integers. The limit does not depend on time, so all ranks agree."""


class Programme:
    """Maximise the sum of the variables of ``goal``; all variables are at least 0. A variable is any hashable name."""

    def __init__(self, goal: list):
        self.goal, self.columns = goal, {}
        self.equal: list[tuple[dict, Fraction]] = []
        self.most: list[tuple[dict, Fraction]] = []

    def add(self, lines: list, terms: dict, value=0):
        """Add Σ factor · variable = value to ``equal``, or ≤ value to ``most``. terms: variable -> factor."""
        for name in terms:
            self.columns.setdefault(name, len(self.columns))
        lines.append((terms, Fraction(value)))

    def add_flow(self, name, links: list[tuple], room, source, sink, amount: list):
        """Add a flow from source to sink with the sum of the variables ``amount``. room: link -> its capacity."""
        balance: dict = {}
        for a, b in links:
            self.add(self.most, {(name, a, b): 1, room(a, b): -1})
            balance.setdefault(a, {})[name, a, b] = -1
            balance.setdefault(b, {})[name, a, b] = 1
        for node, terms in balance.items():
            if node != source:
                self.add(self.equal, terms | ({variable: -1 for variable in amount} if node == sink else {}))

    def solve(self) -> tuple[dict, Fraction, dict[int, Fraction]]:
        """Return (variable -> value, the largest sum, dual price of each line of ``most``, if it is not 0).

        Raises ArithmeticError if values and prices, as fractions, do not prove each other.
        """
        goal = np.zeros(len(self.columns))
        goal[[self.columns[name] for name in self.goal]] = -1
        found = linprog(goal, *self._table(self.most), *self._table(self.equal), method="highs")
        if found.status:
            raise ArithmeticError(f"the linear programme was not solved: {found.message}")
        values = {name: _fraction(found.x[column]) for name, column in self.columns.items()}
        best = sum(values[name] for name in self.goal)
        prices = [_fraction(-price) for price in (*found.ineqlin.marginals, *found.eqlin.marginals)]
        self._check(values, prices, best)
        priced = zip(prices, self.most)
        return values, best, {i: price for i, (price, (_, value)) in enumerate(priced) if value and price}

    def solve_whole(self, whole: list) -> dict | None:
        """Return variable -> value of a solution in which the variables ``whole`` are integers; None: none found."""
        kinds = np.zeros(len(self.columns))
        kinds[[self.columns[name] for name in whole]] = 1
        table, most = self._table(self.most)
        same, value = self._table(self.equal)
        found = milp(np.zeros(len(self.columns)), integrality=kinds,
                     constraints=[LinearConstraint(table, ub=most), LinearConstraint(same, value, value)],
                     options={"node_limit": NODES})
        if found.x is None:
            return None
        return {name: round(found.x[self.columns[name]]) for name in whole}

    def _table(self, lines):
        cells = [(row, self.columns[name], factor) for row, (terms, _) in enumerate(lines)
                 for name, factor in terms.items()]
        rows, columns, factors = zip(*cells)
        return (coo_array((np.array(factors, float), (rows, columns)), (len(lines), len(self.columns))).tocsr(),
                np.array([float(value) for _, value in lines]))

    def _check(self, values, prices, best):
        """Raise unless the values satisfy every line, and the prices prove that no other values give more."""
        cost = dict.fromkeys(self.columns, Fraction(0))
        for (terms, value), price, exact in zip(
                self.most + self.equal, prices, [False] * len(self.most) + [True] * len(self.equal)):
            total = sum(factor * values[name] for name, factor in terms.items())
            if total > value or exact and total != value or not exact and price < 0:
                raise ArithmeticError("the linear programme's values are no fractions that keep its lines")
            for name, factor in terms.items():
                cost[name] += factor * price
        worth = sum(value * price for (_, value), price in zip(self.most + self.equal, prices))
        if worth != best or any(cost[name] < (name in self.goal) for name in self.columns):
            raise ArithmeticError("the linear programme's prices do not prove its value")


def _fraction(number) -> Fraction:
    return Fraction(float(number)).limit_denominator(DENOMINATOR)
