"""The pages in headless Chromium, as wide as a desk's screen and as narrow as a phone's, light and dark."""

import pytest

LOOK = """() => {
  const scrolls = (e) => e && e !== document.body &&
    (getComputedStyle(e).overflowX !== "visible" || scrolls(e.parentElement));
  const cut = [...document.querySelectorAll("main *")].find(
    (e) => e.getBoundingClientRect().right > window.innerWidth + 1 && !e.closest("mjx-assistive-mml") && !scrolls(e));
  const images = [...document.images].filter((image) => image.loading !== "lazy");
  return [
    ...(document.documentElement.scrollWidth > window.innerWidth ? ["scrolls sideways"] : []),
    ...(cut ? ["sticks out: " + cut.outerHTML.slice(0, 80)] : []),
    ...images.filter((i) => !(i.complete && i.naturalWidth)).map((i) => "dead picture " + i.getAttribute("src")),
    ...[...document.querySelectorAll(".math")].filter((m) => !m.querySelector("mjx-container svg")).map(
      (m) => "formula not set: " + m.textContent),
    ...(document.querySelector("mjx-merror, [data-mml-node=merror]") ? ["error in a formula"] : []),
  ];
}"""
FAINT = """() => {
  const part = (c) => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
  const rgba = (text) => text.match(/[\\d.]+/g).map(Number);
  const light = ([r, g, b]) => 0.2126 * part(r / 255) + 0.7152 * part(g / 255) + 0.0722 * part(b / 255);
  const paper = (e) => { const c = e ? rgba(getComputedStyle(e).backgroundColor) : [255, 255, 255];
                         return c.length === 4 && c[3] < 1 ? paper(e.parentElement) : c; };
  return [...document.querySelectorAll("body *")].filter((e) => e.checkVisibility({visibilityProperty: true})
      && !e.closest("svg, mjx-container")
      && [...e.childNodes].some((n) => n.nodeType === 3 && n.data.trim())).map((e) => {
    const [a, b] = [light(rgba(getComputedStyle(e).color)), light(paper(e))].sort((x, y) => y - x);
    return [(a + 0.05) / (b + 0.05), e];
  }).filter(([ratio]) => ratio < 4.5).map(([ratio, e]) => ratio.toFixed(1) + " " + e.outerHTML.slice(0, 90));
}"""


@pytest.fixture
def watch(browser):
    """Give watch(root, **how): a page, and the list of what it complains of and loads from elsewhere."""
    contexts = []

    def start(root, **how):
        contexts.append(browser.new_context(**how))
        page, faults = contexts[-1].new_page(), []
        page.on("console", lambda said: said.type in ("error", "warning") and faults.append(f"console: {said.text}"))
        page.on("pageerror", lambda error: faults.append(f"script: {error}"))
        page.on("request", lambda request: request.url.startswith((root.as_uri(), "data:")) or
                faults.append(f"from elsewhere: {request.url}"))
        return page, faults

    yield start
    for context in contexts:
        context.close()


def look(page, faults, path) -> list[str]:
    """Return what is wrong with one page."""
    page.goto(path.as_uri())
    page.evaluate("window.MathJax?.startup?.promise")
    wrong = [*faults, *page.evaluate(LOOK)]
    faults.clear()
    return wrong


def chosen(site, every):
    """Return all pages of people's own writing, and one in ``every`` of those made from the source."""
    pages = sorted(site.rglob("*.html"))
    made = [page for page in pages if page.relative_to(site).parts[0] in ("_modules", "files", "reference")]
    others = {site / "_static" / "webpack-macros.html", *site.glob("slides/plugin/**/*.html")}
    return sorted({*pages} - {*made} - others) + made[::every]


@pytest.mark.thorough("390-16-0")
@pytest.mark.parametrize("half", [0, 1])  # side by side
@pytest.mark.parametrize(("width", "every"), [(390, 16), (1280, 64)])
def test_pages(site, watch, width, every, half):
    page, faults = watch(site, viewport={"width": width, "height": 844})
    wrong = {str(path.relative_to(site)): look(page, faults, path) for path in chosen(site, every)[half::2]}
    assert {path: found for path, found in wrong.items() if found} == {}


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.thorough("light")
def test_all_text_stands_out(site, watch, scheme):
    page, _ = watch(site, color_scheme=scheme)
    for name in ("index.html", "notebooks/1_adding_up.html", "docs/guide.html", "docs/measured.html",
                 "reference/index.html", "reference/kernels/index.html", "_modules/kernels/arrays.html"):
        page.goto((site / name).as_uri())
        assert page.evaluate("document.documentElement.dataset.theme") == scheme
        page.wait_for_timeout(300)  # buttons change colour by and by
        assert page.evaluate(FAINT) == [], name


def test_searching_by_keyboard(site, watch):
    page, faults = watch(site)
    page.goto((site / "notebooks" / "1_adding_up.html").as_uri())
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent").strip() == "Skip to main content"
    page.keyboard.press("Control+k")
    page.keyboard.type("aggregate_rows")
    page.wait_for_selector("dialog li a")
    page.click("dialog li a >> nth=0")
    page.wait_for_url("**/reference/**#*aggregate_rows")
    assert "aggregate_rows(" in page.inner_text(":target")
    page.click(":target + dd a:has-text('aggregate_rows')")  # where it is defined
    page.wait_for_url("**/reference/kernels/**#*aggregate_rows")
    page.click(":target .viewcode-link")
    page.wait_for_url("**/_modules/**")
    assert "\ndef aggregate_rows(" in page.inner_text(":target") and faults == []


@pytest.mark.parametrize(
    ("spoiled", "fault"),
    [
        ("<script>console.error('so')</script>", "console: so"),
        ("<script>missing()</script>", "script: missing is not defined"),
        ('<img src="gone.png">', "dead picture gone.png"),
        ('<main><p style="width: 500px">x</p></main>', "sticks out: <p style"),
        ('<span class="math">x^2</span>', "formula not set: x^2"),
        ('<link rel="stylesheet" href="http://localhost:9/x.css">', "from elsewhere: http://localhost:9/x.css"),
    ],
)
def test_the_look_sees_a_planted_fault(tmp_path, watch, spoiled, fault):
    page, faults = watch(tmp_path, viewport={"width": 390, "height": 844})
    start = '<!doctype html><meta name="viewport" content="width=device-width"><body style="margin: 0">'
    for name, text in (("good", start), ("bad", start + spoiled)):
        (tmp_path / f"{name}.html").write_text(text)
    assert look(page, faults, tmp_path / "good.html") == []
    assert any(found.startswith(fault) for found in look(page, faults, tmp_path / "bad.html"))
