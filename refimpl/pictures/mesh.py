"""Pictures of the mesh of ranks: the parts of each rank, and the result of each exchange in a group.

The digits of an entry show its origin. Entry rc belongs to row r (of member r - 1's microbatch) and column c (of member
c - 1's block), both from 1 on. Partial sums of member m are m pairs of digits further left, so 1212 is entry 12 with
the parts of two members.
"""

import numpy as np

from refimpl.pictures.picture import BLUE, ORANGE, SKY, Picture, bare, figure_in_style, picture_of, table
from refimpl.plan.mesh import Mesh

SUMS = ("add_rows", "add_columns")
"""Moves that begin with partial sums."""
PAIR = 100  # of digits
CELL, GAP = 1.5, 0.7  # width of an entry relative to its height; gap between members


def entries(members: int):
    """Return the entries of K microbatches x K blocks, 11 to KK: (K, K) int64. Local."""
    return np.add.outer(10 * np.arange(1, members + 1), np.arange(1, members + 1))


def partial_sums(members: int, member: int):
    """Return a member's parts of all entries: (K, K) int64. Local."""
    return entries(members) * PAIR**member


def placed(held, members: int, member: int):
    """Return a member's entries at their indices among all entries: (K, K) int64, 0 elsewhere. Local.

    held: its row (1, K), its column (K, 1), or all entries; a list of rows is concatenated.
    """
    held, found = np.concatenate(held) if isinstance(held, list) else held, np.zeros((members, members), np.int64)
    rows, columns = (slice(None) if n == members else slice(member, member + 1) for n in held.shape)
    found[rows, columns] = held
    return found


def draw_mesh(mesh: Mesh) -> Picture:
    """Draw the ranks of a mesh: each has the whole convolutions and a part of the connected layers. Local."""
    from matplotlib.patches import Rectangle

    with figure_in_style(1.6 + 2.1 * mesh.model, 0.9 + 1.1 * mesh.data) as (figure, axes):
        for rank in range(mesh.size):
            group, member = divmod(rank, mesh.model)
            axes.add_patch(Rectangle((member, group), 0.9, 0.8, facecolor="none", edgecolor="black"))
            axes.text(member + 0.45, group + 0.14, f"rank {rank}", ha="center", va="center")
            axes.add_patch(Rectangle((member + 0.06, group + 0.26), 0.78, 0.18, facecolor=BLUE))
            for part in range(mesh.model):
                axes.add_patch(Rectangle((member + 0.06 + 0.78 * part / mesh.model, group + 0.54), 0.78 / mesh.model,
                                         0.18, facecolor=ORANGE if part == member else "none", edgecolor="black"))
        axes.set(xlim=(-0.05, mesh.model), ylim=(mesh.data, -0.05))
        axes.set_xticks([k + 0.45 for k in range(mesh.model)], [f"member {k}" for k in range(mesh.model)])
        axes.set_yticks([g + 0.4 for g in range(mesh.data)], [f"group {g}" for g in range(mesh.data)])
        axes.xaxis.tick_top()
        bare(axes)
        figure.legend([Rectangle((0, 0), 1, 1, color=BLUE), Rectangle((0, 0), 1, 1, color=ORANGE)],
                      ["convolutions, whole", "connected layers, a part"], loc="outside lower center", ncols=2)
        holders = [f"part {k}: {', '.join(map(str, mesh.holders(k)))}" for k in range(mesh.model)]
        rows = [[rank, rank // mesh.model, mesh.member(rank), f"{mesh.member(rank) + 1} of {mesh.model}"]
                for rank in range(mesh.size)]
        return picture_of(figure, f"{mesh.data} groups of {mesh.model} ranks. Each rank holds the convolutions whole "
                          f"and one part of the connected layers; who holds {'; '.join(holders)}",
                          table(["rank", "group", "member", "part of the connected layers"], rows))


def draw_moves(moves: dict) -> Picture:
    """Draw the entries of each member of a group before and after each move, two moves side by side. Local.

    moves: name -> (before, after), each with a (K, K) grid of ``placed`` for each member.
    """
    members = len(next(iter(moves.values()))[0])
    rows, high = -(-len(moves) // 2), members * (members + GAP)
    with figure_in_style(1.5 + 2.1 * members, rows * (0.5 + 0.23 * high), nrows=rows, ncols=2,
                         squeeze=False) as (figure, grid):
        for axes, (name, (before, after)) in zip(grid.flat, moves.items()):
            wide = members * CELL
            for member in range(members):
                top = member * (members + GAP)
                _draw_entries(axes, before[member], 0, top, name in SUMS)
                _draw_entries(axes, after[member], wide + 1.4, top, False)
                axes.annotate("", (wide + 1.2, top + members / 2), (wide + 0.2, top + members / 2),
                              arrowprops={"arrowstyle": "->"})
            axes.set(title=name, xlim=(-0.1, 2 * wide + 1.5), ylim=(high - GAP + 0.1, -0.1))
            axes.set_xticks([])
            axes.set_yticks([m * (members + GAP) + members / 2 for m in range(members)],
                            [f"member {m}" for m in range(members)])
            bare(axes)
        return picture_of(figure, _said(moves, members), _numbers(moves))


def _draw_entries(axes, entries_of, left, top, partial):
    """Draw a member's entries: filled, partial sums in another colour and hatched."""
    from matplotlib.patches import Rectangle

    for (row, column), number in np.ndenumerate(np.asarray(entries_of)):
        look = {"facecolor": "none"} if not number else {"facecolor": ORANGE, "hatch": "//"} if partial else {
            "facecolor": SKY}
        axes.add_patch(Rectangle((left + CELL * column, top + row), CELL, 1, edgecolor="white" if number else "#cccccc",
                                 linewidth=0.8, zorder=1 + bool(number), **look))
        if number:
            axes.text(left + CELL * (column + 0.5), top + row + 0.5, number, ha="center", va="center_baseline",
                      fontsize=8 if members_in(number) < 3 else 5, zorder=3)


def members_in(number: int) -> int:
    """Return the number of pairs of digits in a number. Local."""
    return -(-len(str(number)) // 2)


def _said(moves, members) -> str:
    def held(grids):
        return np.count_nonzero(np.asarray(grids[0]))

    return f"What each of {members} members holds before and after: " + "; ".join(
        f"{name}, {held(before)} {'partial sums' if name in SUMS else 'entries'}, then {held(after)}"
        f"{' sums' if name in SUMS else ''}" for name, (before, after) in moves.items())


def _numbers(moves) -> str:
    def told(grid):
        return " / ".join(" ".join(str(n or "-") for n in row) for row in grid)

    return table(["move", "member", "before", "after"],
                 [[name, member, told(before[member]), told(after[member])]
                  for name, (before, after) in moves.items() for member in range(len(before))])
