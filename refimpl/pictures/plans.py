"""A plan as a picture: what each strategy for each variable would put on the busiest card, and which was chosen."""

from refimpl.pictures.picture import BLACK, BLUE, GREEN, GREY, ORANGE, Picture, figure_in_style, picture_of, table
from refimpl.plan.choose import Chosen
from refimpl.plan.strategy import names_of, strategy_of

COLOURS = {"green": GREEN, "blue": BLUE, "orange": ORANGE, "black": BLACK}


def looks(forecasts=()) -> dict[str, tuple[str, str, str]]:
    """Return strategy -> (what plots call it, colour, mark), dense ones first: those of ``auto``, and of the forecasts.

    Local.
    """
    there = {(name, f.sparse) for f in forecasts for name in f.candidates}
    dense, sparse = ([strategy_of(name, kind) for name in names_of(kind)
                      if (name, kind) in there or strategy_of(name, kind).automatic] for kind in (False, True))
    return {cls.name: (cls.label, COLOURS[cls.colour], cls.mark) for cls in [*reversed(dense), *sparse]}


def draw_plan(chosen: Chosen) -> Picture:
    """Draw a plan: a line a variable, a mark for each strategy that it could have, filled for the one it has. Local.

    x: bytes of a step through the card that has most of them, in and out, logarithmic.
    """
    forecasts = chosen.forecasts
    known = looks(forecasts)
    with figure_in_style(8.6, 1.5 + 0.46 * len(forecasts)) as (figure, axes):
        for place, forecast in enumerate(forecasts):
            counts = [candidate.card_bytes for candidate in forecast.candidates.values()]
            axes.plot([min(counts), max(counts)], [place, place], color=GREY, linewidth=0.8, zorder=1)
            for name, candidate in forecast.candidates.items():
                _, colour, mark = known[name]
                has = name == forecast.strategy
                axes.plot([candidate.card_bytes], [place], mark, color=colour, markersize=11 if has else 8,
                          markerfacecolor=colour if has else "white", markeredgewidth=2)
        axes.set_yticks(range(len(forecasts)), [f"{f.variable}\n" + (f"α = {f.alpha:.2g}" if f.sparse else "dense")
                                                for f in forecasts])
        axes.set(xscale="log", ylim=(len(forecasts) - 0.5, -0.5),
                 xlabel="bytes of a step through the busiest machine's card, in and out")
        axes.tick_params(axis="y", length=0)
        seen = [name for name in known if any(name in forecast.candidates for forecast in forecasts)]
        keys = [axes.plot([], [], mark, color=colour, label=label, markersize=9)[0]
                for label, colour, mark in map(known.get, seen)]
        figure.legend(handles=keys, loc="outside lower center", ncols=len(seen),
                      title="filled: the way that was chosen")
        alt = "The way of each variable, and the bytes that each way would put on the busiest card: " + "; ".join(
            f"{f.variable} goes by {f.strategy}, {f.candidates[f.strategy].card_bytes:,}" for f in forecasts)
        rows = [[f.variable, f"{f.alpha:.3g}" if f.sparse else "dense", f.strategy,
                 *(f.candidates[name].card_bytes if name in f.candidates else "" for name in known)]
                for f in forecasts]
        return picture_of(figure, alt, table(["bytes", "α", "goes by", *known], rows))
