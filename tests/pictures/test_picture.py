"""A picture says in words what it shows, and is the same file each time it is made."""

import xml.etree.ElementTree as ElementTree

import pytest

from refimpl.pictures.picture import figure_in_style, line_style, mark_style, picture_of, table


def squares(alt="Squares < cubes & more"):
    with figure_in_style() as (figure, axes):
        axes.plot([1, 2, 3], [1, 4, 9], label="squares", **line_style(0))
        axes.plot([1, 2, 3], [1, 8, 27], label="cubes", **mark_style(1))
        axes.legend()
        return picture_of(figure, alt, table(("x", "x²"), [(1, 1), (2, 4.0), (1000, 1e6)]))


def test_the_svg_says_what_it_shows_and_stands_alone(tmp_path):
    picture = squares()
    root = ElementTree.fromstring(picture.svg)
    assert root.attrib["role"] == "img"
    assert root.find("{http://www.w3.org/2000/svg}title").text == "Squares < cubes & more"
    assert "squares" in picture.svg, "text stays text"
    for other_host in ("href=\"http", "@import", "<script", "<image"):
        assert other_host not in picture.svg
    assert picture.svg.startswith("<svg") and picture.svg == squares().svg
    assert picture.save(tmp_path / "squares.svg").read_text(encoding="utf-8") == picture.svg


def test_words_and_numbers_in_its_place():
    picture = squares()
    assert picture.text == "Squares < cubes & more\n    x     x²\n    1      1\n    2      4\n1,000  1e+06"
    assert repr(picture) == picture.text
    assert picture._repr_mimebundle_() == {"image/svg+xml": picture.svg, "text/plain": picture.text}


@pytest.mark.parametrize("alt", ["", "  ", "two\nlines"])
def test_a_picture_without_words_is_refused(alt):
    with pytest.raises(ValueError, match="text alternative of one line"):
        squares(alt)
