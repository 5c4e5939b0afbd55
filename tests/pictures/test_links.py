"""The picture of a packing: the load and the trees that it says in words."""

from refimpl.collectives.links import named_links, pack_trees
from refimpl.pictures.schedules import draw_links


def test_the_words_are_those_of_the_packing():
    picture = draw_links(pack_trees(named_links("star-200,200,200,100")), trees=2)
    assert picture.alt == "star-200,200,200,100: allreduce at rate 100; of 8 links 6 are full and 0 are not used"
    assert picture.numbers.splitlines()[1].split()[:4] == ["sum", "to", "1", "100"]
    assert "rate 100" in picture.svg and picture.svg.startswith("<svg")


def test_trees_are_drawn_only_if_asked_for():
    packing = pack_trees(named_links("ring-4"))
    assert draw_links(packing).numbers == "" and "sum to" not in draw_links(packing).svg
    assert draw_links(packing, 3).svg.count("sum to rank") == 3
    assert draw_links(packing, 3) == draw_links(packing, 3)
