"""Pictures of sums: the effect of rounding, the results of all orders of addition, the order of a schedule.

Another picture shows how trainings on different numbers of ranks drift apart, because they add in different orders.
"""

from dataclasses import dataclass

import numpy as np

from refimpl.collectives.exactness import rounded, wholes
from refimpl.collectives.orders import Tree, add_in_order, additions, all_sums, orders, sum_trees, tree_text
from refimpl.collectives.schedule import Schedule
from refimpl.gradients import leaves_of
from refimpl.pictures.lines import Line, draw_lines
from refimpl.pictures.picture import (
    BLACK, BLUE, GREEN, GREY, ORANGE, PURPLE, SKY, VERMILION, Picture, bare, figure_in_style, picture_of, table,
)
from refimpl.words import counted


def draw_roundings(values, trees: dict[str, Tree], ticks) -> Picture:
    """Draw for each order (title -> tree) its additions on the line of the dtype's numbers. Local.

    values: (n,) of float16 or float32.  ticks: the numbers of the dtype that are drawn; smaller sums are given as text.
    A diamond is the exact sum of two numbers, a dot the rounded result.
    """
    values, ticks, told = np.asarray(values), [float(t) for t in ticks], []
    steps = [(title if number == 0 else "", step) for title, tree in trees.items()
             for number, step in enumerate(additions(tree, values))]
    with figure_in_style(8.4, 1.1 + 0.72 * len(steps)) as (figure, axes):
        width = ticks[-1] - ticks[0]
        for lane, (title, step) in enumerate(steps):
            said = f"{_number(step.left)} + {_number(step.right)}"
            axes.text(ticks[0] - 0.42 * width, lane - 0.33, title, va="center", fontweight="bold")
            axes.text(ticks[0] - 0.40 * width, lane, said, va="center")
            if step.exact >= ticks[0]:
                axes.hlines(lane, ticks[0], ticks[-1], color=GREY, linewidth=1, zorder=1)
                axes.plot(ticks, [lane] * len(ticks), "|", color=GREY, markersize=11, zorder=1)
                _draw_step(axes, lane, step)
            else:
                axes.text(ticks[0], lane, f"= {_number(step.rounded)}, far to the left of here", va="center")
            told.append([*map(_number, (step.left, step.right, step.exact, step.rounded))])
        axes.set(xlim=(ticks[0] - 0.42 * width, ticks[-1] + 0.04 * width), ylim=(len(steps) - 0.55, -0.7), yticks=[])
        axes.set_xticks(ticks, [_number(t) for t in ticks], fontsize=8)
        axes.grid(False)
        axes.spines[["left", "bottom"]].set_visible(False)
        axes.tick_params(length=0)
        _legend(figure, axes, values.dtype)
        alt = (f"The sum of {', '.join(_number(float(v)) for v in values)} in {values.dtype}: " + "; ".join(
            f"{title} gives {_number(float(add_in_order(tree, values)))}" for title, tree in trees.items()))
        return picture_of(figure, alt, table(["left", "right", "exact", "kept"], told))


def _draw_step(axes, lane, step):
    """Draw one addition: from the larger part to the exact sum, and from the exact sum to the rounded result."""
    begin, lift = max(step.left, step.right), 0.22
    exact_there = step.rounded == step.exact
    axes.annotate("", (step.exact, lane - (0 if exact_there else lift)), (begin, lane), arrowprops={
        "arrowstyle": "-|>", "color": BLUE, "linewidth": 1.6, "connectionstyle": "arc3,rad=-0.35", "shrinkA": 3,
        "shrinkB": 5})
    if not exact_there:
        axes.annotate("", (step.rounded, lane), (step.exact, lane - lift), arrowprops={
            "arrowstyle": "-|>", "color": VERMILION, "linewidth": 1.6, "linestyle": "--", "shrinkA": 5, "shrinkB": 5,
            "connectionstyle": "arc3,rad=-0.45"})
        axes.plot([step.exact], [lane - lift], "D", color="white", markeredgecolor=VERMILION, markersize=7, zorder=3)
    axes.plot([begin, step.rounded], [lane, lane], "o", color=BLACK, markersize=6, zorder=4)


def _legend(figure, axes, dtype):
    axes.plot([], [], "|", color=GREY, markersize=11, label=f"the numbers that {dtype} has here")
    axes.plot([], [], "D", color="white", markeredgecolor=VERMILION, label="exact sum: no such number")
    axes.plot([], [], "-", color=BLUE, label="add")
    axes.plot([], [], "--", color=VERMILION, label="round")
    figure.legend(loc="outside lower center", ncols=4, fontsize=9)


def _number(value: float) -> str:
    return f"{value:,.10g}"


def ulps_off(values, tree: Tree) -> float:
    """Return the error of a sum in this order against the correctly rounded sum, in units of its last place. Local."""
    return _off(float(add_in_order(tree, values)), values)


def _off(total: float, values) -> float:
    nearest = np.asarray(rounded(sum(wholes(values)), values.dtype), values.dtype)
    return (total - float(nearest)) / float(np.spacing(abs(nearest)))


def draw_orders(values, marked: dict[str, Tree]) -> Picture:
    """Draw the histogram of errors of all orders of addition, in ULP; label some of them. Local.

    values: (n,) floating-point, n up to 10.  marked: label -> tree; trees with the same error share an arrow.
    """
    values = np.asarray(values)
    counts = {_off(total, values): number for total, number in all_sums(values).items()}
    at: dict[float, list[str]] = {}
    for label, tree in marked.items():
        at.setdefault(ulps_off(values, tree), []).append(label)
    step = min(np.diff(sorted(counts)), default=1.0)
    with figure_in_style(8.0, 4.2) as (figure, axes):
        axes.bar(list(counts), list(counts.values()), width=0.8 * step, color=BLUE)
        axes.set_yscale("log")
        top = max(counts.values())
        for height, (place, labels) in enumerate(sorted(at.items())):
            axes.bar([place], [counts[place]], width=0.8 * step, color=ORANGE, hatch="//", edgecolor=BLACK,
                     linewidth=0.6)
            y = top * 2.5 ** (1 + height)
            axes.annotate(", ".join(labels), (place, counts[place]), (place, y), fontsize=9, zorder=4,
                          ha="right" if place < 0 else "left",
                          arrowprops={"arrowstyle": "-", "color": BLACK, "linewidth": 0.8},
                          bbox={"facecolor": "white", "edgecolor": "none", "pad": 1.0})
        axes.set_ylim(0.7, top * 2.5 ** (1.8 + len(at)))
        axes.set_xlabel("distance from the correctly rounded sum, in units of its last place (ULP)")
        axes.set_ylabel(f"orders of addition, of {orders(len(values)):,}")
        powers = [10**k for k in range(12) if 10**k <= top]
        axes.set_yticks(powers, [f"{power:,}" for power in powers])
        axes.minorticks_off()
        alt = (f"{orders(len(values)):,} orders of adding the same {len(values)} numbers give {len(counts)} different "
               f"sums, from {min(counts):+g} to {max(counts):+g} ULP; {counts.get(0.0, 0):,} orders give the correctly "
               "rounded one. " + "; ".join(f"{', '.join(labels)}: {place:+g}" for place, labels in sorted(at.items())))
        return picture_of(figure, alt, table(["ULP", "orders"], [[f"{u:+g}", n] for u, n in sorted(counts.items())]))


RANKS = (BLUE, ORANGE, GREEN, PURPLE, VERMILION, SKY, GREY)
"""Colours of ranks; sums over several ranks are black."""


@dataclass
class _Node:
    """A drawn node: its place, and the ranks of its microbatches."""

    x: float
    y: int
    ranks: frozenset


def draw_sum_trees(schedules: dict[str, list[Schedule]], leaves: int) -> Picture:
    """Draw the order in which schedules add up ``leaves`` microbatches in chunk 0: title -> a row of trees. Local.

    A square is a microbatch, coloured and numbered by its rank. A coloured dot is an addition within a rank, a black
    dot an addition over ranks. Children are drawn in the order of their first leaves.
    """
    told, columns = [], max(map(len, schedules.values()))
    trees = {title: [sorted_tree(sum_trees(s)[0]) for s in line]
             for title, line in schedules.items()}
    heights = {title: max(map(_height, line)) for title, line in trees.items()}
    shape = {"nrows": len(schedules), "ncols": columns, "height_ratios": [h + 1 for h in heights.values()]}
    height = 0.75 * len(heights) + 0.27 * sum(heights.values())
    with figure_in_style(2.35 * columns, height, squeeze=False, **shape) as (figure, grid):
        for row, (title, line) in zip(grid, schedules.items()):
            for axes, schedule, tree in zip(row, line, trees[title]):
                owner = [r for r in range(schedule.ranks) for _ in leaves_of(r, schedule.ranks, leaves)]
                _draw_tree(axes, tree, owner, heights[title])
                axes.set_title(f"{title}, {counted(schedule.ranks, 'rank')}", fontsize=10)
                told.append([title, schedule.ranks, tree_text(tree)])
            for axes in row[len(line):]:
                axes.set_visible(False)
        alt = (f"The order in which {leaves} microbatches are added up: " + "; ".join(
            f"{title} on {', '.join(str(s.ranks) for s in line)} ranks, different trees: "
            f"{len({text for t, _, text in told if t == title})}" for title, line in schedules.items()))
        return picture_of(figure, alt, table(["algorithm", "ranks", "order"], told))


def sorted_tree(tree: Tree) -> Tree:
    """Return the same sum with each addition's parts in the order of their first leaves. Local."""
    if not isinstance(tree, tuple):
        return tree
    parts = sorted(map(sorted_tree, tree), key=_first_leaf)
    return parts[0], parts[1]


def _height(tree: Tree) -> int:
    return 1 + max(map(_height, tree)) if isinstance(tree, tuple) else 0


def _first_leaf(tree: Tree) -> int:
    return min(map(_first_leaf, tree)) if isinstance(tree, tuple) else tree


def _draw_tree(axes, tree, owner, height):
    places = iter(range(len(owner)))

    def place(part) -> _Node:
        if not isinstance(part, tuple):
            node = _Node(next(places), 0, frozenset([owner[part]]))
            axes.plot([node.x], [0], "s", color="white", markeredgecolor=RANKS[owner[part] % len(RANKS)],
                      markeredgewidth=2.2, markersize=11.5, zorder=2)
            axes.text(node.x, -0.03, owner[part], ha="center", va="center", fontsize=8.5)
            return node
        below = [place(child) for child in part]
        node = _Node(sum(b.x for b in below) / 2, 1 + max(b.y for b in below), below[0].ranks | below[1].ranks)
        for child in below:
            axes.plot([node.x, child.x], [node.y, child.y], "-", color=GREY, linewidth=1.2, zorder=1)
        colour = BLACK if len(node.ranks) > 1 else RANKS[min(node.ranks) % len(RANKS)]
        axes.plot([node.x], [node.y], "o", color=colour, markersize=7, zorder=2)
        return node

    place(tree)
    axes.set(xlim=(-0.7, len(owner) - 0.3), ylim=(-0.6, height + 0.4), xticks=[], yticks=[])
    bare(axes)


def draw_drift(trainings: dict[str, list[dict]]) -> Picture:
    """Draw the part of the parameters that have other bits than on 1 rank, step by step. Local.

    trainings: title -> ranks, changed and largest of each training (see ``refimpl.experiments.drift``).
    """
    curves: dict[tuple, list[str]] = {}  # equal curves are drawn once, with all their names
    for title, drifts in trainings.items():
        for drift in drifts:
            curves.setdefault(tuple(drift["changed"]), []).append(f"{title}, {drift['ranks']} ranks")
    with figure_in_style(7.6, 4.0) as (figure, axes):
        draw_lines(axes, [Line("; ".join(names), range(1, len(changed) + 1), [100 * part for part in changed], number)
                          for number, (changed, names) in enumerate(curves.items())],
                   "step", "parameters with other bits, %")
        axes.set_ylim(bottom=-0.03 * max(1, *axes.get_ylim()))
        figure.legend(loc="outside lower center")
        last = [(f"{title} on {d['ranks']} ranks", d) for title, line in trainings.items() for d in line]
        steps = len(last[0][1]["changed"])
        alt = f"After {steps} steps, parameters with other bits than on 1 rank: " + "; ".join(
            f"{name} {d['changed'][-1]:.1%}" for name, d in last)
        rows = [[name, *(f"{d['changed'][k]:.2%}" for k in (0, -1)), f"{d['largest'][-1]:.2g}"] for name, d in last]
        heads = ["training", "after 1 step", f"after {steps}", "largest difference"]
        return picture_of(figure, alt, table(heads, rows))
