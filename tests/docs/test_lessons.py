"""What a reader does with a lesson's page: switch its theme, copy, download, open it elsewhere; narrow and dark."""

import io
import re
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LESSONS = sorted(path.stem for path in ROOT.glob("notebooks/*.ipynb"))
BUTTONS = ROOT / "docs" / "site" / "templates" / "html" / "lesson.html"


def shades(picture) -> tuple[float, float]:
    """Return the mean grey of a picture's edge, and of the tenth of its pixels that differ most from it: 0 to 255."""
    np, image = pytest.importorskip("numpy"), pytest.importorskip("PIL.Image")
    grey = np.asarray(image.open(io.BytesIO(picture.screenshot())).convert("L"), dtype=float)
    edge = np.median(np.concatenate([grey[:, 3:6].ravel(), grey[3:6].ravel()]))
    far = grey.ravel()[np.argsort(abs(grey.ravel() - edge))[-max(1, grey.size // 200):]]
    return edge, far.mean()


def unfit(page, dark: bool) -> list[str]:
    """Return which pictures are not light on dark in the dark, or not dark on light otherwise."""
    found = []
    for picture in page.locator(".cell_output img").all():
        paper, ink = shades(picture)
        if not (paper < 50 and ink > 110 if dark else paper > 205 and ink < 145):
            found.append(f"{picture.get_attribute('src')}: {ink:.0f} on {paper:.0f}")
    return found


@pytest.fixture
def page(browser):
    opened = browser.new_page(color_scheme="light", viewport={"width": 1280, "height": 844})
    yield opened
    opened.close()


@pytest.mark.parametrize("lesson", ["1_adding_up", "4_hybrid"])
def test_pictures_suit_the_theme_that_one_switches_to(page, site, lesson):
    page.goto((site / "notebooks" / f"{lesson}.html").as_uri())
    assert page.locator(".cell_output img").count() > 3
    assert unfit(page, dark=False) == []
    page.click(".theme-switch-container button")
    page.click("[data-mode=dark] >> visible=true")
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    assert unfit(page, dark=True) == []


def test_a_white_picture_in_the_dark_is_seen(page, tmp_path):
    drawing = ('<svg xmlns="http://www.w3.org/2000/svg" width="90" height="90"><path fill="#fff" d="M0 0h90v90H0z"/>'
               '<path d="M20 20h50v50H20z"/></svg>')
    (tmp_path / "a.svg").write_text(drawing)
    (tmp_path / "a.html").write_text('<div class="cell_output"><img src="a.svg"></div>')
    page.goto((tmp_path / "a.html").as_uri())
    assert unfit(page, dark=False) == [] and unfit(page, dark=True) == ["a.svg: 0 on 255"]


@pytest.mark.parametrize("lesson", LESSONS)
def test_a_phone_reaches_all_of_every_picture(page, site, lesson):
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto((site / "notebooks" / f"{lesson}.html").as_uri())
    lost = page.eval_on_selector_all(".cell_output img", """all => all.filter(image => {
      const box = image.closest(".output");
      box.scrollLeft = box.scrollWidth;
      return image.getBoundingClientRect().right > box.getBoundingClientRect().right + 1 || image.width < 380;
    }).map(image => image.getAttribute("src"))""")
    assert lost == []


def test_code_can_be_copied(page, site):
    page.goto((site / "notebooks" / "4_hybrid.html").as_uri())
    assert page.locator(".cell_input button.copybtn").count() > 5


@pytest.mark.parametrize("lesson", LESSONS)
def test_a_lesson_can_be_downloaded(site, lesson):
    page, offered = (site / "notebooks" / f"{lesson}{kind}" for kind in (".html", ".ipynb"))
    assert re.search(rf'<a(?=[^>]* download)[^>]* href="{lesson}.ipynb"', page.read_text("utf-8"))
    assert offered.read_bytes() == (ROOT / "notebooks" / offered.name).read_bytes()


def test_no_solution_of_a_problem_set_is_on_the_site(site):
    assert not (site / "notebooks" / "instructor").exists()


def test_binder_opens_a_lesson_where_the_repository_is_known():
    template = pytest.importorskip("jinja2").Template(BUTTONS.read_text("utf-8"))

    def shown(page, repository):
        return template.render(pagename=page, repository=repository, pathto=lambda name, _: f"/{name}")

    assert "https://mybinder.org/v2/gh/a/b/HEAD?labpath=notebooks/4_hybrid.ipynb" in shown("notebooks/4_hybrid", "a/b")
    assert "binder" not in shown("notebooks/4_hybrid", "") and shown("docs/guide", "a/b").strip() == ""


def test_a_repository_that_is_none_is_refused(monkeypatch):
    pytest.importorskip("sphinx", reason="the extra docs is not installed: make test-docs")
    monkeypatch.setenv("REPOSITORY", "https://github.com/a/b")
    with pytest.raises(SystemExit, match="expects owner/name"):
        runpy.run_path(str(ROOT / "docs" / "conf.py"))
