"""Stored notebooks as pages."""

import json

import pytest

pytest.importorskip("latex2mathml", reason="the extra docs is not installed: make test-docs")

from docs.website.links import BrokenLink, Links  # noqa: E402
from docs.website.notebook import notebook_page, opening_of, title_of  # noqa: E402


def page_of(repository):
    path = repository / "notebooks" / "1_sample.ipynb"
    links = Links(repository)
    return notebook_page(path, "notebooks/1_sample.ipynb", links, []), links


def test_prose_formulas_and_headings(repository):
    page, _ = page_of(repository)
    assert page.title == "A sample & its parts" and page.url == "notebooks/1_sample.html"
    assert 'href="../index.html"' in page.html and page.html.count("<math") == 2 and "5 $ or 6 $" in page.html
    assert [heading.id for heading in page.headings] == ["a-sample--its-parts", "one", "one-1"]
    assert page.description == "The README says why 2^{ai} < n."


def test_code_with_what_came_of_it(repository):
    page, links = page_of(repository)
    assert "on 4 ranks, by MPI" in page.html and "rank 0: True\nrank 1: True</pre>" in page.html
    assert '<img src="pictures/line.svg" alt="A line rises" />' in page.html and "<pre>0 1</pre>" in page.html
    assert links.pictures == {"notebooks/pictures/line.svg"}
    assert "A line rises\n0 1" not in page.html  # the words are in the picture's own HTML
    assert "measured: another run" in page.html and "your turn" in page.html and "not answered yet" in page.html
    assert "division by zero" in page.html and page.html.count('class="cell"') == 4  # the empty cell is left out


def test_a_solution_stays_folded_and_highlighted(repository):
    html = page_of(repository)[0].html
    folded = html[html.index("<details><summary>Solution"):]
    assert '<pre class="code"' in folded[:folded.index("</details>")] and "<details open" not in html


def test_pictures_in_other_forms(repository):
    path = repository / "notebooks" / "1_sample.ipynb"
    stored = json.loads(path.read_text())
    data = [{"image/svg+xml": "<?xml version='1.0'?>\n<svg><title>t</title></svg>", "text/plain": "t"},
            {"image/png": "AAAA\n", "text/plain": "a plot"}, {"text/markdown": "**bold** $x$"},
            {"text/plain": ["a\n", "b"]}]
    stored["cells"][3]["outputs"] = [{"output_type": "display_data", "data": item, "metadata": {}} for item in data]
    path.write_text(json.dumps(stored))
    html = page_of(repository)[0].html
    assert "<svg><title>t</title></svg>" in html and "<?xml" not in html and "<b" not in html
    assert '<img src="data:image/png;base64,AAAA" alt="a plot">' in html
    assert "<strong>bold</strong> <span" in html and ">a\nb</pre>" in html


def test_titles_without_rendering(repository):
    path = repository / "notebooks" / "1_sample.ipynb"
    assert title_of(path) == "A sample & its parts" and opening_of(path).startswith("The README says")


def test_a_picture_that_is_not_there(repository):
    (repository / "notebooks" / "pictures" / "line.svg").unlink()
    with pytest.raises(BrokenLink, match="1_sample.ipynb links to pictures/line.svg"):
        page_of(repository)
