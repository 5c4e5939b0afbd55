"""Trainings with and without a straggler, side by side: bars of throughput, histograms of staleness, curves of loss."""

from matplotlib.ticker import MaxNLocator

from refimpl.pictures.lines import Line, plot_panels
from refimpl.pictures.picture import BLUE, COLOURS, GREY, Picture, figure_in_style, picture_of, plain_axis, table

HATCHES = ("", "////", "xxxx", "....")


def plot_speeds(speeds: dict[str, dict[str, float]], unit: str) -> Picture:
    """Draw bars of throughput: straggler -> training -> ``unit`` a second. Local.

    The label of a bar is its ratio to the first training with the same straggler.
    """
    names = list(dict.fromkeys(name for some in speeds.values() for name in some))
    high = 0.8 / len(speeds)
    with figure_in_style(8.2, 1.2 + 0.3 * len(names) * len(speeds)) as (figure, axes):
        for number, (straggler, some) in enumerate(speeds.items()):
            places = [names.index(name) + high * (number - (len(speeds) - 1) / 2) for name in some]
            axes.barh(places, list(some.values()), 0.9 * high, color=COLOURS[number], edgecolor="white",
                      hatch=HATCHES[number % len(HATCHES)], label=straggler)
            for place, times, speed in zip(places, _times(some), some.values()):
                axes.text(speed, place, f" {times:.2f} ×", va="center", fontsize=8)
        axes.set_yticks(range(len(names)), names)
        axes.set(ylim=(len(names) - 0.5, -0.5), xlabel=f"{unit} a second")
        axes.margins(x=0.1)
        axes.xaxis.set_major_formatter("{x:,.0f}")
        plain_axis(axes, "y")
        figure.legend(loc="outside lower center", ncols=len(speeds))
        alt = f"{unit.capitalize()} a second: " + "; ".join(
            f"{straggler}: " + ", ".join(f"{name} {speed:,.0f}" for name, speed in some.items())
            for straggler, some in speeds.items())
        rows = [[straggler, name, round(speed), times] for straggler, some in speeds.items()
                for (name, speed), times in zip(some.items(), _times(some))]
        return picture_of(figure, alt, table(["straggler", "training", f"{unit} a second", "times the first"], rows))


def _times(some) -> list[float]:
    first = next(iter(some.values()))
    return [speed / first for speed in some.values()]


def plot_staleness(histograms: dict[str, dict[int, int]], what: str = "pushes") -> Picture:
    """Draw histograms of staleness with one scale: title -> τ -> number of ``what``. Local."""
    largest = max((max(some) for some in histograms.values() if some), default=0)
    columns = min(3, len(histograms))
    lines = -(-len(histograms) // columns)
    with figure_in_style(8.6, 0.8 + 1.8 * lines, nrows=lines, ncols=columns, sharex=True, sharey=True,
                         squeeze=False) as (figure, grid):
        for axes in grid.flat[len(histograms):]:
            axes.set_visible(False)
        for axes, (title, some) in zip(grid.flat, histograms.items()):
            shares = _shares(some)
            axes.bar(list(shares), [100 * share for share in shares.values()], 0.8, color=BLUE)
            axes.axvline(mean(some), color=GREY, linestyle="--", linewidth=1.2)
            axes.set_title(f"{title}: mean {mean(some):.2f}", fontsize=9)
            axes.xaxis.set_major_locator(MaxNLocator(integer=True))
            plain_axis(axes, "x")
        grid[0, 0].set_xlim(-0.6, largest + 0.6)
        figure.supxlabel("staleness: updates between a worker's pull and its push", fontsize=10)
        figure.supylabel(f"{what}, %", fontsize=10)
        alt = f"Staleness of {what}, in updates: " + "; ".join(
            f"{title}, mean {mean(some):.2f}, at most {max(some, default=0)}" for title, some in histograms.items())
        rows = [[title, late, some[late], f"{share:.1%}"] for title, some in histograms.items()
                for late, share in _shares(some).items()]
        return picture_of(figure, alt, table(["", "staleness", what, "share"], rows))


def mean(histogram: dict[int, int]) -> float:
    """Return the mean of a histogram, value -> count; 0 if it is empty. Local."""
    return sum(number * count for number, count in histogram.items()) / max(1, sum(histogram.values()))


def _shares(histogram):
    whole = max(1, sum(histogram.values()))
    return {late: histogram[late] / whole for late in sorted(histogram)}


def plot_loss_curves(curves: dict[str, list]) -> Picture:
    """Draw loss over passes and over seconds in two panels: training -> [(passes, seconds, loss)]. Local."""
    def panel(axis):
        return [Line(name, [point[axis] for point in points], [point[2] for point in points], number)
                for number, (name, points) in enumerate(curves.items())]

    alt = "Training loss (nats) at the end: " + "; ".join(
        f"{name} {points[-1][2]:.3f} after {points[-1][1]:.1f} s" for name, points in curves.items() if points)
    return plot_panels({"over steps": panel(0), "over time": panel(1)},
                       ["steps of all workers / workers", "seconds of training"], "training loss (nats)", alt)
