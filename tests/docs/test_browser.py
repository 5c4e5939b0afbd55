"""The site in headless Chromium, as wide as a desk's screen and as narrow as a phone's."""

import shutil
from pathlib import Path

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
LOOK = """() => {
  const wide = document.documentElement.scrollWidth - window.innerWidth;
  const scrolls = (e) => e && (getComputedStyle(e).overflowX !== "visible" || scrolls(e.parentElement));
  const widest = wide > 0 && [...document.querySelectorAll("body *")].find(
    (e) => e.getBoundingClientRect().right > window.innerWidth + 1 && !scrolls(e.parentElement));
  const named = (images) => images.map((image) => image.getAttribute("src").slice(0, 80));
  const images = [...document.images];
  return {wide, widest: widest ? widest.outerHTML.slice(0, 80) : "",
          dead: named(images.filter((image) => !(image.complete && image.naturalWidth))),
          mute: named(images.filter((image) => !image.alt.trim()))};
}"""


@pytest.fixture(scope="module")
def browser():
    sync_api = pytest.importorskip("playwright.sync_api", reason="the extra docs is not installed: make test-docs")
    with sync_api.sync_playwright() as playwright:
        program = next(filter(None, map(shutil.which, NAMES)), playwright.chromium.executable_path)
        if not Path(program).exists():
            pytest.skip("no Chromium on this machine: install its package (Debian: chromium), or playwright's own")
        try:
            chromium = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        except sync_api.Error as problem:
            pytest.skip(f"{program} does not start here: {str(problem).splitlines()[0]}")
        yield chromium
        chromium.close()


@pytest.fixture
def watched(browser):
    """Give watch(width): a page, and the list of what it complains of and loads from elsewhere."""
    contexts = []

    def watch(width, root):
        contexts.append(browser.new_context(viewport={"width": width, "height": 844}))
        page, faults = contexts[-1].new_page(), []
        page.on("console", lambda said: faults.append(f"console: {said.text}")
                if said.type in ("error", "warning") else 0)
        page.on("pageerror", lambda error: faults.append(f"script: {error}"))
        page.on("requestfailed", lambda request: faults.append(f"not there: {request.url}")
                if request.failure != "net::ERR_ABORTED" else 0)  # as where the next page is gone to
        page.on("request", lambda request: faults.append(f"from elsewhere: {request.url}")
                if not request.url.startswith((root, "data:")) else 0)
        return page, faults

    yield watch
    for context in contexts:
        context.close()


def look(page, faults, url) -> list[str]:
    """Return what is wrong with one page."""
    page.goto(url)
    seen = page.evaluate(LOOK)
    wrong = [*faults, *(f"dead picture {src}" for src in seen["dead"])]
    wrong += [f"no words for {src}" for src in seen["mute"]]
    if seen["wide"] > 0:
        wrong.append(f"{seen['wide']} pixels too wide: {seen['widest']}")
    faults.clear()
    return wrong


def chosen(site, every: int) -> list[Path]:
    """Return all pages of people's own writing, and of the reference its index and one page in ``every``."""
    pages = sorted(path.relative_to(site) for path in site.rglob("*.html"))
    reference = [page for page in pages if page.parts[0] == "reference" and page.stem != "index"]
    return sorted(set(pages) - set(reference)) + reference[::every]


@pytest.mark.parametrize(("width", "every"), [(390, 8), (1280, 40)])
def test_pages(site, watched, width, every):
    page, faults = watched(width, site.as_uri())
    wrong = {}
    for name in chosen(site, every):
        if found := look(page, faults, (site / name).as_uri()):
            wrong[str(name)] = found
    assert wrong == {}


def test_searching(site, watched):
    page, faults = watched(390, site.as_uri())
    page.goto((site / "notebooks" / "index.html").as_uri())
    page.fill(".search input", "sparse_allgather")
    page.click(".found a >> nth=0")
    page.wait_for_url("**/reference/refimpl.plain.cost_table.html#sparse_allgather")
    page.keyboard.press("/")
    page.keyboard.type("no such thing at all")
    assert page.text_content(".found") == "Nothing of that name"
    page.keyboard.press("Escape")
    assert page.is_hidden(".found") and faults == []


def test_a_line_of_source_is_where_the_entry_says(site, watched):
    page, _ = watched(1280, site.as_uri())
    page.goto((site / "reference" / "refimpl.collectives.algorithms.ring.html").as_uri())
    page.click("#allgather ~ .where a")
    assert page.text_content(":target").startswith("def allgather(")
    first, second = (page.locator(f"#L-{line}").bounding_box()["y"] for line in (1, 2))
    assert 10 < second - first < 30


@pytest.mark.parametrize(
    ("spoiled", "fault"),
    [
        ("<script>console.error('so')</script>", "console: so"),
        ("<script>missing()</script>", "script: missing is not defined"),
        ('<img src="gone.png" alt="x">', "dead picture gone.png"),
        ('<img src="data:image/svg+xml,%3Csvg xmlns=%22http://www.w3.org/2000/svg%22/%3E">', "no words for data:image"),
        ('<main><p style="width: 500px">x</p></main>', "110 pixels too wide: <p style"),
        ('<link rel="stylesheet" href="http://localhost:9/x.css">', "from elsewhere: http://localhost:9/x.css"),
    ],
)
def test_the_look_sees_a_planted_fault(tmp_path, watched, spoiled, fault):
    page, faults = watched(390, tmp_path.as_uri())
    start = '<!doctype html><meta name="viewport" content="width=device-width"><body style="margin: 0">'
    (tmp_path / "a.html").write_text(start)
    assert look(page, faults, (tmp_path / "a.html").as_uri()) == []
    (tmp_path / "b.html").write_text(start + spoiled)
    assert any(found.startswith(fault) for found in look(page, faults, (tmp_path / "b.html").as_uri()))
