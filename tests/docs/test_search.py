"""What a search finds first, what it shows of it, and where it looks, in a folder that is opened without a server."""

import json
import re
from urllib.parse import quote_plus

import pytest


def found(browser, site, words: str) -> list[str]:
    """Return where the results of a search lead, best first."""
    page = browser.new_page()
    page.goto(f"{(site / 'search.html').as_uri()}?q={quote_plus(words)}")
    page.wait_for_selector("#search-results h2:text('Search Results')")
    links = page.eval_on_selector_all("#search-results li > a", "all => all.map(a => a.getAttribute('href'))")
    page.close()
    return [re.sub(r"\?[^#]*", "", link) for link in links]


@pytest.mark.parametrize(
    ("words", "pages"),
    [
        ("embedding", {"notebooks/2_parameter_server.html", "notebooks/3_sparsity.html", "docs/torch.html"}),
        ("bandwidth-optimal", {"notebooks/1_adding_up.html"}),
        ("how do I install", {"index.html", "README.html"}),
        ("parameter server", {"notebooks/2_parameter_server.html"}),
        ("train", {"reference/index.html#refimpl.train"}),
        ("Variable", {"reference/index.html#refimpl.Variable"}),
        ("options", {"reference/index.html#refimpl.Options"}),
        ("TorchModel", {"reference/index.html#refimpl.torch.TorchModel"}),
    ],
)
def test_the_page_is_among_the_first(browser, site, words, pages):
    first = 1 if any("#" in page for page in pages) else 5
    assert pages & set(found(browser, site, words)[:first]), found(browser, site, words)[:8]


@pytest.mark.parametrize(
    "words", ["allreduce", "gradient", "rank", "server", "codec", "staleness", "checkpoint", "plan"])
def test_names_do_not_bury_lessons_and_guides(browser, site, words):
    first = found(browser, site, words)[:10]
    assert sum(not page.startswith("reference/") for page in first) >= 7, first


def snippets(page, place: str) -> list[str | None]:
    """Return what stands under each result, best first; None where nothing does."""
    page.wait_for_selector(f"{place} h2:text('Search Results')")
    page.wait_for_selector(f"{place} li p.snippet")
    return page.eval_on_selector_all(f"{place} li", "all => all.map(li => li.querySelector('p')?.textContent ?? null)")


@pytest.mark.parametrize(("words", "said"), [
    ("bandwidth-optimal", "bandwidth-optimal"), ("rows are interleaved", "interleaved"), ("error feedback", "feedback"),
    ("aggregate_rows", "Sum the rows that share an id")])
def test_each_result_shows_where_its_words_stand(browser, site, words, said):
    page = browser.new_page()
    page.goto(f"{(site / 'search.html').as_uri()}?q={quote_plus(words)}")
    first = snippets(page, "#search-results")[:6]
    page.close()
    assert all(first) and max(map(len, first)) < 220 and any(said in text for text in first), first


def test_results_show_it_while_one_types_on_any_page(browser, site):
    page = browser.new_page()
    page.goto((site / "docs" / "plan.html").as_uri())
    page.keyboard.press("Control+k")
    page.keyboard.type("staleness")
    first = snippets(page, "dialog")[0]
    page.close()
    assert "updates that a gradient has missed" in first or "stale" in first, first


def test_what_is_nowhere_is_not_found(browser, site):
    assert found(browser, site, "zebrafish") == []


def test_tests_are_not_searched(site):
    text = (site / "searchindex.js").read_text("utf-8")
    index = json.loads(text[text.index("(") + 1:text.rindex(")")])
    assert "notebooks/1_adding_up" in index["docnames"]
    assert not [name for name in index["docnames"] if "tests" in name.split("/") or "test_" in name]
