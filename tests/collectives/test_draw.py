"""The picture tells what the schedule does: every transfer and sum is in the text and in the plot."""

import re

import pytest

from refimpl.collectives import ALGORITHMS, Round, Schedule, Sum, Transfer, make_schedule
from refimpl.collectives.draw import draw, draw_text
from refimpl.gradients import Node

RING = """\
    rank 0  rank 1  rank 2
 0  0>r1    1>r2    2>r0
    +2      +0      +1
 1  2>r1    0>r2    1>r0
    +1      +2      +0
 2  1>r1    2>r2    0>r0
 3  0>r1    1>r2    2>r0"""


def test_ring_as_text():
    assert draw_text(make_schedule("ring", 3, 3)) == RING


@pytest.mark.parametrize("name", ALGORITHMS)
def test_every_transfer_is_told_once(name):
    schedule = make_schedule(name, 4, 4, machines=((0, 1), (2, 3)) if name == "hierarchical" else None)
    told = re.findall(r"(\d+)(?:-(\d+))?>(all|[r\d,]+)", draw_text(schedule))
    sent = sum((int(stop or start) + 1 - int(start)) * (3 if peers == "all" else peers.count("r"))
               for start, stop, peers in told)
    assert sent == sum(schedule.elements_sent(schedule.chunks))


def test_many_ranks_continue_below_and_many_lines_are_cut():
    text = draw_text(make_schedule("direct", 9, 9), width=60)
    assert all(len(line) <= 60 for line in text.splitlines())
    assert [f"rank {r}" in text for r in range(9)] == [True] * 9 and text.count("\n\n") == 2
    assert "... 4 more" in text and "+8 x8" in text and "8>all" in text


def test_nothing_to_draw():
    assert draw_text(make_schedule("direct", 1, 1)) == "    rank 0"


def test_pictures_are_written(tmp_path):
    for name, ranks, suffix, magic in (("double-tree", 5, "png", b"\x89PNG"), ("direct", 1, "svg", b"<?xml")):
        path = draw(make_schedule(name, ranks, ranks), tmp_path / f"{name}.{suffix}")
        assert path.read_bytes().startswith(magic)


def test_the_plot_holds_the_arrows(tmp_path, monkeypatch):
    from matplotlib.axes import Axes

    drawn, quiver = [], Axes.quiver
    monkeypatch.setattr(Axes, "quiver", lambda self, x, y, u, v, **style:
                        drawn.append((x, y, u, v, style["label"])) or quiver(self, x, y, u, v, **style))
    schedule = Schedule("toy", 2, ((Node(0, 0),), (Node(0, 1),), (Node(0, 2),)), (
        Round((Transfer(0, 2, 0, 2, target=1),), (Sum(2, 0, 1, 0, 2),)), Round((Transfer(2, 1, 0, 1),))))
    draw(schedule, tmp_path / "toy.svg")
    ends = [([yy for yy in y], [yy + vv for yy, vv in zip(y, v)], label) for _, y, _, v, label in drawn]
    assert ends == [([0], [2], "sent to be added"), ([2], [1], "sent to be kept")]


def test_unknown_suffix(tmp_path):
    with pytest.raises(ValueError, match="xyz"):
        draw(make_schedule("ring", 2, 2), tmp_path / "ring.xyz")
