"""Pictures of the server say what they show; the numbers are those that were drawn."""

import numpy as np

from refimpl.pictures.lines import Line, numbers_of, plot_lines, plot_panels
from refimpl.pictures.servers import (
    PHASES, draw_partitions, draw_pull_push, draw_traffic, plot_by_rank, plot_popularity, pull_and_push,
)
from refimpl.server import Partitioning

PARTS = Partitioning.round_robin(12, 4, 4)


def test_partitions_by_owner():
    picture = draw_partitions({"contiguous": PARTS, "interleaved": Partitioning.round_robin(12, 4, 4, "interleaved")})
    assert "contiguous, rank 0 has rows 0, 1, 2; interleaved, rank 0 has rows 0, 4, 8" in picture.alt
    assert "9, 10, 11" in picture.numbers and picture.svg.startswith("<svg")


def test_messages_go_to_owners_and_back():
    messages = pull_and_push(PARTS, [[0, 4], [4, 7], [3, 5, 10], []])
    asked = [(0, 1, [4]), (1, 2, [7]), (2, 1, [3, 5]), (2, 3, [10])]  # what a rank owns it does not ask for
    assert [m[1:] for m in messages if m[0] == PHASES[0]] == asked
    assert [m[1:] for m in messages if m[0] == PHASES[1]] == [(owner, rank, ids) for rank, owner, ids in asked]
    assert [m[1:] for m in messages if m[0] == PHASES[2]] == asked
    picture = draw_pull_push(PARTS, [[0, 4], [4, 7], [3, 5, 10], []])
    assert "4 questions and as many answers" in picture.alt and "3, 5" in picture.numbers


def test_traffic_and_bars():
    one_owner = np.array([[0, 6], [4, 0]])
    assert "one owner, at most 6 reach one rank" in draw_traffic({"one owner": one_owner}).alt
    bars = plot_by_rank({"uneven": [3000, 1000], "even": [2000, 2000]}, "kB in a step", unit=1000)
    assert "uneven: most 3, least 1; even: most 2, least 2" in bars.alt
    assert plot_by_rank({"uneven": [3000, 1000]}).svg == plot_by_rank({"uneven": [3000, 1000]}).svg


def test_popularity_tells_what_each_partition_holds():
    counts = np.array([80, 10, 6, 4])
    picture = plot_popularity(counts, ["the", "a", "of", "x"], Partitioning.round_robin(4, 2, 2), named=(1, 9))
    assert "words 0 to 1, holds 90.0% of the text" in picture.alt and "10.0%" in picture.numbers


def test_lines_list_their_points():
    curve = Line("2 n", range(100), [2 * n for n in range(100)])
    counted = Line("counted", [1, 2], [2, 4], points=True)
    both = ["n  2 n  counted: 2 n", "1    2             2", "2    4             4"]
    assert numbers_of([curve, counted], "n").splitlines() == both
    assert len(numbers_of([curve], "n").splitlines()) <= 13
    with_a_short_one = numbers_of([curve, Line("most", [0, 99], [198, 198])], "n").splitlines()
    assert with_a_short_one[1].split() == ["0", "0", "198"] and len(with_a_short_one) <= 14
    assert plot_lines([curve, counted], "n", "bytes", "Twice n.", log="y", ticks=[10, 50]).alt == "Twice n."
    assert plot_panels({"left": [curve], "right": [counted]}, ["n", "m"], "bytes", "Two.").numbers.startswith("left\n")


def test_an_axis_that_is_the_same_for_all_pictures():
    line = Line("", [1, 2], [3, 4])
    assert ">500<" in plot_lines([line], "n", "ms", "Flat.", span=(0, 500)).svg
    assert ">500<" not in plot_lines([line], "n", "ms", "Steep.").svg


def test_measured_points_are_once_in_the_legend():
    lines = [Line(f"way {i}", [1, 2], [i, i], i) for i in range(2)]
    lines += [Line("measured", [1], [i], i, points=True) for i in range(2)]
    picture = plot_lines(lines, "n", "bytes", "Two ways.")
    assert picture.svg.count(">measured<") == 1 and "measured: way 1" in picture.numbers
