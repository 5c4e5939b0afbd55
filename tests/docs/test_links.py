"""Files of the repository and their pages."""

import pytest

from docs.website.links import BrokenLink, Links, page_url, relative


@pytest.mark.parametrize(
    ("path", "is_directory", "url"),
    [
        ("README.md", False, "index.html"),
        ("docs/guide.md", False, "docs/guide.html"),
        ("docs", True, "docs/index.html"),
        ("notebooks", True, "notebooks/index.html"),
        ("notebooks/4_hybrid.ipynb", False, "notebooks/4_hybrid.html"),
        ("notebooks/pictures/a.svg", False, "notebooks/pictures/a.svg"),
        ("refimpl/plan", True, "reference/refimpl.plan.html"),
        ("refimpl/plan/__init__.py", False, "reference/refimpl.plan.html"),
        ("kernels/arrays.py", False, "reference/kernels.arrays.html"),
        ("tests/conformance/expected.json", False, "files/tests/conformance/expected.json.html"),
        ("Makefile", False, "files/Makefile.html"),
    ],
)
def test_page_of_a_file(path, is_directory, url):
    assert page_url(path, is_directory) == url


def test_links_lead_from_page_to_page():
    assert relative("docs/a.html#x", "docs/b.html") == "a.html#x"
    assert relative("index.html", "reference/a.html") == "../index.html"
    assert relative("docs/a.html", "index.html") == "docs/a.html"
    assert relative("#here", "docs/a.html") == "#here"


def test_resolving_remembers_what_must_be_put_on_the_site(repository):
    links = Links(repository)
    assert links.resolve("docs/guide.md", "../refimpl/one.py") == "../reference/refimpl.one.html"
    assert links.resolve("docs/guide.md", "findings.md#a-b") == "findings.html#a-b"
    assert links.resolve("docs/guide.md", "https://example.org/x#y") == "https://example.org/x#y"
    assert links.resolve("docs/guide.md", "../notebooks/pictures/line.svg") == "../notebooks/pictures/line.svg"
    assert links.resolve("README.md", "Makefile") == "files/Makefile.html"
    assert (links.pictures, links.files) == ({"notebooks/pictures/line.svg"}, {"Makefile"})


@pytest.mark.parametrize("href", ["gone.md", "../../etc/hosts", "../refimpl/two.py#L-1"])
def test_a_link_to_nothing_is_refused_by_name(repository, href):
    with pytest.raises(BrokenLink, match="docs/guide.md links to .*no .* in the repository"):
        Links(repository).resolve("docs/guide.md", href)
