"""The checker of finished sites sees what it must."""

import pytest

from docs.website.check import problems

GOOD = '<h1 id="a">A</h1><a href="b.html#there">b</a><img src="p.svg" alt="a line"><a href="https://example.org">x</a>'


@pytest.fixture
def small_site(tmp_path):
    (tmp_path / "b.html").write_text('<p id="there"><a href="a.html">a</a></p>')
    (tmp_path / "p.svg").write_text("<svg/>")
    return tmp_path


def test_a_good_site(small_site):
    (small_site / "a.html").write_text(GOOD)
    assert problems(small_site) == []


@pytest.mark.parametrize(
    ("spoiled", "problem"),
    [
        ('<a href="gone.html">x</a>', "a.html: links to gone.html, and there is no such page"),
        ('<a href="b.html#gone">x</a>', "a.html: links to b.html#gone, and b.html has no such place"),
        ('<a href="#gone">x</a>', "a.html: links to #gone, and a.html has no such place"),
        ('<a href="../out.html">x</a>', "a.html: links to ../out.html, and there is no such page"),
        ('<img src="gone.png" alt="x">', "a.html: links to gone.png, and there is no such page"),
        ('<img src="p.svg">', "a.html: picture p.svg has no text alternative"),
        ('<img src="p.svg" alt=" ">', "a.html: picture p.svg has no text alternative"),
        ('<p id="a"></p>', "a.html: the id a stands twice"),
        ('<script src="https://example.org/x.js"></script>', "a.html: loads https://example.org/x.js from elsewhere"),
        ('<link href="//example.org/x.css">', "a.html: loads //example.org/x.css from elsewhere"),
    ],
)
def test_a_planted_mistake_is_named(small_site, spoiled, problem):
    (small_site / "a.html").write_text(GOOD + spoiled)
    assert problem in problems(small_site)
