"""The curves of the paper's table, with measured bytes on them."""

from typing import Callable, Sequence

from refimpl.experiments.ways import Case, closed_formula
from refimpl.pictures.lines import Line

KB = 1000


def lines_of_ways(case_of: Callable[[str, float], tuple[Case, int]], x: Sequence[float], measured_at: Sequence[float],
                  measured: dict[str, list[int]]) -> list[Line]:
    """Return each way's formula as a line and its measured bytes as points on it, in kB in and out of a rank. Local.

    case_of(way, x): the case and the number of ranks at x.  x: where the formulas are worked out.
    measured: way -> bytes at each of ``measured_at``, values and row numbers.
    """
    found = []
    for style, (way, counted) in enumerate(measured.items()):
        cases = [case_of(way, place) for place in x]
        found.append(Line(cases[0][0].title, x, [float(sum(closed_formula(*case))) / KB for case in cases], style))
        found.append(Line("measured", measured_at, [count / KB for count in counted], style, points=True))
    return found
