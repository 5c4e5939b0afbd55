"""Docstrings as HTML."""

import pytest

from docs.website.docstring import render, road


def test_prose_and_code():
    assert render("One & two\nlines of ``a < b``.\n\nMore `code`.") == (
        "<p>One &amp; two lines of <code>a &lt; b</code>.</p>\n<p>More <code>code</code>.</p>")


def test_drawings_keep_their_shape_and_blank_lines():
    assert render("A tree:\n\n      +\n     / \\\n\n    0 < 1\n\nThat was it.") == (
        '<p>A tree:</p>\n<pre class="drawing" tabindex="0">  +\n / \\\n\n0 &lt; 1</pre>\n<p>That was it.</p>')


def test_explanations_of_known_names_only():
    text = "Sum up. Local.\n\nfirst, second: two\n    arrays.  third: a number.\nwhole.\nRaises ValueError\nfor none."
    html = render(text, {"first", "second", "third"})
    assert "<p>Sum up. Local.</p>" in html
    assert "<dt><code>first</code>, <code>second</code></dt><dd>two arrays.</dd>" in html
    assert "<dt><code>third</code></dt><dd>a number. whole.</dd></dl><p>Raises ValueError for none.</p>" in html
    assert "<dl>" not in render("Note: a word is not a parameter.", {"first"})


def test_lists():
    assert render("- one\n- two\n  lines") == "<ul><li>one\n</li><li>two\n  lines</li></ul>"


def test_links_where_a_name_is_known():
    html = render("See ``Communicator`` and ``n``.", (), {"Communicator": "communicator.html"}.get)
    assert html == '<p>See <a href="communicator.html"><code>Communicator</code></a> and <code>n</code>.</p>'


@pytest.mark.parametrize(("text", "who"), [("Do it. Local.", "Local"), ("Collective over the ranks.", "Collective"),
                                           ("Localise.", ""), ("", "")])
def test_who_calls_it(text, who):
    assert road(text) == who
