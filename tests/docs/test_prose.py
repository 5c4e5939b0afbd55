"""Markdown as HTML."""

import pytest

pytest.importorskip("latex2mathml", reason="the extra docs is not installed: make test-docs")

from docs.website.links import BrokenLink, Links  # noqa: E402
from docs.website.prose import Heading, render, slug  # noqa: E402


@pytest.fixture
def links(repository):
    return Links(repository)


def test_headings_have_the_ids_that_links_expect(links):
    shown = render("# It's `one`\n\n## A: b & c\n\n## A: b & c\n", "README.md", links)
    assert shown.headings == [Heading(1, "its-one", "It's one"), Heading(2, "a-b--c", "A: b & c"),
                              Heading(2, "a-b--c-1", "A: b & c")]
    assert shown.title == "It's one" and shown.html.count('class="self"') == 2
    assert slug("Why the numbers are the same?") == "why-the-numbers-are-the-same"


def test_links_and_pictures_also_in_raw_html(links):
    text = ('[a](docs/guide.md) <a href="refimpl/one.py">b</a>\n\n'
            '<img src="notebooks/pictures/line.svg" alt="x">\n')
    html = render(text, "README.md", links).html
    assert 'href="docs/guide.html"' in html and 'href="reference/refimpl.one.html"' in html
    assert links.pictures == {"notebooks/pictures/line.svg"}
    with pytest.raises(BrokenLink):
        render('<img src="gone.svg">', "README.md", links)


def test_formulas_only_where_asked_for(links):
    text = "from $PATH to $HOME, $x^2$"
    assert "<math" not in render(text, "README.md", links).html
    html = render("say $x^2 < y$\n\n$$\\alpha$$\n", "notebooks/1.ipynb", links, math=True).html
    assert html.count("<math") == 2 and 'alttext="x^2 &lt; y"' in html and 'display="block"' in html


def test_tables_and_code_scroll_by_themselves(links):
    imports = render("```python\nimport numpy, models\nfrom refimpl.one import one\n```", "docs/guide.md", links).html
    assert imports.count("<a ") == 2 and '<a href="../reference/refimpl.one.html">refimpl.one</a>' in imports
    text = "| a |\n|---|\n| 1 |\n\n```python\nx = 'a < b'  # why\n```\n\n```\n│ a\n```\n"
    html = render(text, "README.md", links).html
    assert '<div class="wide" tabindex="0"><table>' in html
    assert '<pre class="code" tabindex="0">' in html and '<span class="c1"># why</span>' in html and "a &lt; b" in html
    assert '<pre class="code boxes"' in html


def test_a_table_without_heads(links):
    html = render("| | |\n|---|---|\n| 1 | 2 |\n", "README.md", links).html
    assert "<th" not in html and html.count("<td>") == 2
