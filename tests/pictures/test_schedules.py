"""Moving pictures of schedules, and what their bytes and times look like."""

import re
import xml.etree.ElementTree as ElementTree

import pytest

from refimpl.collectives import Round, Sum, Transfer, make_schedule, schedule_of
from refimpl.collectives.links import named_links, pack_trees
from refimpl.collectives.simulation.simulate import simulate
from refimpl.pictures.animate import animate, states_of
from refimpl.pictures.schedules import (
    bytes_and_rounds, draw_links, flat_network, plot_sent, plot_times, space_time, times_over_ranks,
)


def star(ranks):
    return schedule_of([Round(tuple(Transfer(r, 0, 0, 1, 0, r) for r in range(1, ranks)),
                              tuple(Sum(0, 0, r, 0, 1) for r in range(1, ranks))),
                        Round(tuple(Transfer(0, r, 0, 1) for r in range(1, ranks)))], ranks, 1, "star")


def test_the_digits_of_a_number_say_which_ranks_are_in_it():
    states = states_of(make_schedule("ring", 4, 4))
    assert states.shape == (7, 4, 4)
    assert states[0].tolist() == [[10**r * c for c in (1, 2, 3, 4)] for r in range(4)]
    assert states[1, 1].tolist() == [11, 20, 30, 40] and states[1, 0].tolist() == [1, 2, 3, 4004]
    assert (states[-1] == [1111, 2222, 3333, 4444]).all()


@pytest.mark.parametrize("schedule", [make_schedule("ring", 4, 4), make_schedule("halving-doubling", 8, 8), star(3),
                                      make_schedule("ring", 1, 1)], ids=lambda s: f"{s.name}-{s.ranks}")
def test_a_moving_picture_stands_alone_and_shows_every_message_and_state(schedule):
    picture = animate(schedule)
    ElementTree.fromstring(picture.svg)
    messages = sum(t.stop - t.start for step in schedule.rounds for t in step.transfers)
    assert len(re.findall(r'<g class="m\d+"', picture.svg)) == messages
    for name in set(re.findall(r'class="(\w[\w-]*)"', picture.svg)):
        assert f".{name}{{animation" in picture.svg, "each has its time"
    assert "<script" not in picture.svg and picture.svg == animate(schedule).svg
    assert len(picture.numbers.splitlines()) == len(schedule.rounds) + 1


def test_at_rest_it_shows_the_end():
    """Without its style sheet nothing but the last value of each cell is visible."""
    svg = re.sub(r"<style>.*?</style>", "", animate(make_schedule("ring", 2, 2)).svg, flags=re.DOTALL)
    stage = re.findall(r'<g class="s\d+-\d+" opacity="1">.*?>(\d+)</text>', svg)
    assert stage == ["11", "22", "11", "22"] and not re.findall(r'class="m\d+" opacity="1"', svg)


def test_too_many_ranks_to_be_seen():
    with pytest.raises(ValueError, match="at most 8 ranks and 9 chunks, not 9 and 9: use draw"):
        animate(make_schedule("ring", 9, 9))


def test_bytes_and_rounds_are_the_proofs():
    schedules = [star(4), make_schedule("ring", 4, 4), make_schedule("halving-doubling", 4, 4)]
    assert [line.split() for line in bytes_and_rounds(schedules).splitlines()[1:]] == [
        ["star", "4", "2", "3", "n", "1.5", "n", "no"], ["ring", "4", "6", "1.5", "n", "1.5", "n", "no"],
        ["halving-doubling", "4", "4", "1.5", "n", "1.5", "n", "yes"]]


def test_pictures_carry_their_numbers():
    assert "0>r1" in space_time(make_schedule("ring", 4, 4)).numbers
    sent = plot_sent({"star": star, "ring": lambda n: make_schedule("ring", n, n)}, [2, 4])
    assert [line.split() for line in sent.numbers.splitlines()] == [
        ["ranks", "2", "4"], ["star", "1", "3"], ["ring", "1", "1.5"], ["lower", "bound", "1", "1.5"]]


def test_times_over_ranks_are_the_simulations():
    times = times_over_ranks({"ring": None, "star": star}, [2, 8], (1 << 10, 1 << 20))
    for size in (1 << 10, 1 << 20):
        for name, schedule in (("ring", make_schedule("ring", 8, 8)), ("star", star(8))):
            assert times[name, size][8] == simulate(schedule, flat_network(8), size // 4, 4).seconds
    picture = plot_times(times)
    assert "1 KiB and 1 MiB" in picture.alt and "star, 1 MiB" in picture.numbers


def test_the_words_about_links_are_those_of_the_packing():
    picture = draw_links(pack_trees(named_links("star-200,200,200,100")), trees=2)
    assert picture.alt == "star-200,200,200,100: allreduce at rate 100; of 8 links 6 are full and 0 are not used"
    assert picture.numbers.splitlines()[1].split()[:4] == ["sum", "to", "1", "100"]
    assert "rate 100" in picture.svg and picture.svg.startswith("<svg")


def test_trees_are_drawn_only_if_asked_for():
    packing = pack_trees(named_links("ring-4"))
    assert draw_links(packing).numbers == "" and "sum to" not in draw_links(packing).svg
    assert draw_links(packing, 3).svg.count("sum to rank") == 3
    assert draw_links(packing, 3) == draw_links(packing, 3)
