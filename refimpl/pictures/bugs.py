"""A picture of a bug in row gradients: the factor by which each row is too large, over the ranks that pushed it."""

import numpy as np

from refimpl.conformance.cases import case_named
from refimpl.conformance.kinds import KINDS
from refimpl.conformance.observe import gather_evidence
from refimpl.conformance.runner import answers_of
from refimpl.pictures.picture import GREY, Picture, figure_in_style, mark_style, picture_of, table


def row_factors(make, ranks: int) -> dict[int, list[float]]:
    """Return for rows that 1, 2, ... ranks push the factors by which they are too large: rising, unique. Local.

    make(world) -> an adapter, see ``run_local``.
    """
    asked = case_named("rows/provenance", ranks)
    semantics, answers = answers_of(make, asked)
    evidence = gather_evidence(asked, semantics, answers, KINDS[asked.kind].expect(asked, semantics))
    factors: dict[int, set] = {}
    for name, found in evidence.observed[0].items():
        wanted = evidence.wanted[0][name].value
        pushed = np.concatenate([parts[name].ids for parts in asked.steps[0]])
        for _, rows in found:
            for row, values in zip(rows.ids, rows.rows):
                place = np.searchsorted(wanted.ids, row)
                ratio = values.astype(float) / wanted.rows[place]
                factors.setdefault(int((pushed == row).sum()), set()).update(np.round(ratio, 6).tolist())
    return {pushes: sorted(ratios) for pushes, ratios in sorted(factors.items())}


def draw_row_factors(adapters: dict[str, object], ranks: int = 4) -> Picture:
    """Draw the factors by which rows are too large, over the number of ranks that pushed them. Local.

    adapters: title -> make.
    """
    found = {title: row_factors(make, ranks) for title, make in adapters.items()}
    with figure_in_style(7.0, 3.8) as (figure, axes):
        axes.axhline(1, color=GREY, linewidth=1, linestyle="--")
        for number, (title, factors) in enumerate(found.items()):
            points = [(pushes, ratio) for pushes, ratios in factors.items() for ratio in ratios]
            shift = 0.07 * (number - (len(found) - 1) / 2)  # so that equal points do not hide each other
            axes.plot([pushes + shift for pushes, _ in points], [ratio for _, ratio in points], label=title,
                      markersize=9, markerfacecolor="white", markeredgewidth=2.2, **mark_style(number))
        axes.set(xlabel=f"ranks that pushed the row, of {ranks}", ylabel="found / expected", xlim=(0.6, ranks + 0.4))
        axes.set_ylim(bottom=0)
        axes.set_xticks(range(1, ranks + 1))
        figure.legend(loc="outside lower center", ncols=len(found))
        alt = (f"How many times too large the returned rows are, if 1 to {ranks} ranks pushed them: " + "; ".join(
            f"{title}, {' '.join(f'{r:.4g}' for ratios in factors.values() for r in ratios)}"
            for title, factors in found.items()))
        rows = [[pushes, *(" ".join(f"{r:.4g}" for r in factors.get(pushes, [])) for factors in found.values())]
                for pushes in range(1, ranks + 1)]
        return picture_of(figure, alt, table(["pushed by", *found], rows))
