"""A plan as a picture: for each variable what each way would put on the busiest card, and the way that was chosen."""

from refimpl.pictures.picture import BLACK, BLUE, GREEN, GREY, ORANGE, Picture, figure_in_style, picture_of, table
from refimpl.plan.choose import Chosen

LOOKS = {"allreduce": ("allreduce", GREEN, "D"), "server": ("server", BLUE, "o"),
         "allgather": ("rows to all (allgather)", ORANGE, "s"),
         "as-dense": ("whole, as if dense (allreduce)", BLACK, "^")}
"""Way -> what plots call it, colour and mark: those of its curve over α, see ``lines_of_ways``."""


def draw_plan(chosen: Chosen) -> Picture:
    """Draw a plan: a line a variable, a mark for each way that it could go; filled is the way that it goes. Local.

    x: bytes of a step through the card that has most of them, in and out, logarithmic.
    """
    forecasts = chosen.forecasts
    with figure_in_style(8.6, 1.5 + 0.46 * len(forecasts)) as (figure, axes):
        for place, forecast in enumerate(forecasts):
            counts = [road.card_bytes for road in forecast.roads.values()]
            axes.plot([min(counts), max(counts)], [place, place], color=GREY, linewidth=0.8, zorder=1)
            for way, road in forecast.roads.items():
                _, colour, mark = LOOKS[way]
                axes.plot([road.card_bytes], [place], mark, color=colour, markersize=11 if way == forecast.way else 8,
                          markerfacecolor=colour if way == forecast.way else "white", markeredgewidth=2)
        axes.set_yticks(range(len(forecasts)), [_label(forecast) for forecast in forecasts])
        axes.set(xscale="log", ylim=(len(forecasts) - 0.5, -0.5),
                 xlabel="bytes of a step through the busiest machine's card, in and out")
        axes.tick_params(axis="y", length=0)
        seen = [way for way in LOOKS if any(way in forecast.roads for forecast in forecasts)]
        figure.legend(handles=[_key(axes, way) for way in seen], loc="outside lower center", ncols=len(seen),
                      title="filled: the way that was chosen")
        alt = "The way of each variable, and the bytes that each way would put on the busiest card: " + "; ".join(
            f"{f.variable} goes by {f.way}, {f.roads[f.way].card_bytes:,}" for f in forecasts)
        return picture_of(figure, alt, _numbers(forecasts))


def _label(forecast) -> str:
    return f"{forecast.variable}\nα = {forecast.alpha:.2g}" if forecast.sparse else f"{forecast.variable}\ndense"


def _key(axes, way):
    label, colour, mark = LOOKS[way]
    return axes.plot([], [], mark, color=colour, label=label, markersize=9)[0]


def _numbers(forecasts) -> str:
    rows = [[f.variable, f"{f.alpha:.3g}" if f.sparse else "dense", f.way,
             *(f.roads[way].card_bytes if way in f.roads else "" for way in LOOKS)] for f in forecasts]
    return table(["bytes", "α", "goes by", *LOOKS], rows)
