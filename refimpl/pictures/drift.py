"""How far trainings drift apart that differ in nothing but the number of ranks, as a picture."""

from refimpl.pictures.lines import Line, draw_lines
from refimpl.pictures.picture import Picture, figure_in_style, picture_of, table


def draw_drift(trainings: dict[str, list[dict]]) -> Picture:
    """Draw the part of the parameters that have other bits than on 1 rank, step by step. Local.

    trainings: title -> ranks, changed and largest of each training (see ``refimpl.experiments.drift``).
    """
    curves: dict[tuple, list[str]] = {}  # equal ones are drawn once, under all their names
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
