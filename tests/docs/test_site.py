"""The whole site: of a small repository, and of this one."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("latex2mathml", reason="the extra docs is not installed: make test-docs")

from docs.website import build as building  # noqa: E402
from docs.website.check import problems  # noqa: E402

ROOT = Path(__file__).parents[2]


def test_a_small_repository(repository, tmp_path):
    pages = {page.url for page in building.build(repository, tmp_path / "site")}
    assert pages == {
        "index.html", "docs/index.html", "docs/guide.html", "docs/findings.html", "notebooks/index.html",
        "notebooks/1_sample.html", "reference/index.html", "reference/refimpl.html", "reference/refimpl.one.html",
        "reference/models.html", "reference/kernels.html", "reference/kernels.deep.html",
        "reference/kernels.deep.one.html", "reference/tests.html", "reference/tests.test_one.html",
        "files/Makefile.html"}
    assert problems(tmp_path / "site") == []
    one = (tmp_path / "site" / "reference" / "refimpl.one.html").read_text()
    assert 'see <a href="models.html#two"><code>two</code></a>' in one and "<dt><code>n</code></dt><dd>any.</dd>" in one
    assert '<a href="#L-5">source</a>' in one and '<a href="models.html">models</a>' in one
    assert 'class="road local"' in (tmp_path / "site" / "reference" / "models.html").read_text()


def test_the_same_repository_gives_the_same_bytes(repository, tmp_path):
    sites = [tmp_path / name for name in "ab"]
    for site in sites:
        building.build(repository, site)
    first, second = ({path.relative_to(site): path.read_bytes() for path in site.rglob("*") if path.is_file()}
                     for site in sites)
    assert first == second


def test_an_earlier_site_is_replaced_and_nothing_else(repository, tmp_path):
    building.build(repository, tmp_path / "site")
    (tmp_path / "site" / "old.html").touch()
    building.build(repository, tmp_path / "site")
    assert not (tmp_path / "site" / "old.html").exists()
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").touch()
    with pytest.raises(FileExistsError, match="holds other files than a site: choose another"):
        building.build(repository, tmp_path / "mine")
    assert (tmp_path / "mine" / "thesis.txt").exists()


def test_the_command_names_a_broken_link(repository, tmp_path):
    (repository / "docs" / "guide.md").write_text("# Guide\n\n[gone](gone.md)\n")
    program = f"import docs.website.__main__ as it; from pathlib import Path; it.ROOT = Path({str(repository)!r}); " \
              "raise SystemExit(it.main())"
    done = subprocess.run([sys.executable, "-c", program, "--output", str(tmp_path / "site")], capture_output=True,
                          text=True, cwd=ROOT, timeout=60)
    assert done.returncode == 1 and "docs: docs/guide.md links to gone.md, and there is no docs/gone.md" in done.stderr
    assert not (tmp_path / "site").exists()


def test_our_site_has_no_problem(site):
    assert problems(site) == []


def test_our_site_has_everything(site, modules):
    for folder, suffix in (("docs", ".md"), ("notebooks", ".ipynb")):
        for path in (ROOT / folder).glob(f"*{suffix}"):
            assert (site / folder / f"{path.stem}.html").is_file()
    assert len(modules) > 300
    for module in modules:
        name = ".".join(part for part in module.parts if part != "__init__")
        assert (site / "reference" / f"{name}.html").is_file()


def test_every_public_name_can_be_searched_for(site):
    text = (site / "static" / "names.js").read_text().removeprefix("window.siteNames = ").rstrip(";\n")
    found = {(name, url) for name, _, _, url in json.loads(text)}
    assert ("Wire", "reference/refimpl.collectives.wire.html#Wire") in found
    assert ("sparse_allgather", "reference/refimpl.plain.cost_table.html#sparse_allgather") in found
    for _, url in found:
        assert (site / url.partition("#")[0]).is_file()


def luminance(colour):
    """Relative luminance of #rrggbb (WCAG 2)."""
    parts = [int(colour[i:i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear))


def test_all_text_stands_out_in_light_and_dark():
    style = (building.HERE / "static" / "style.css").read_text()
    blocks = re.findall(r":root \{(.*?)\}", style, re.DOTALL)
    modes = [dict(re.findall(r"--(\w+): (#[0-9a-f]{6});", block)) for block in blocks]
    assert len(modes) == 2
    for colours in modes:
        for ink in ("ink", "soft", "accent", "good", "bad", "keyword", "string", "number", "comment", "name"):
            for paper in ("paper", "panel"):
                light, dark = sorted((luminance(colours[ink]), luminance(colours[paper])), reverse=True)
                assert (light + 0.05) / (dark + 0.05) >= 4.5, (ink, paper)
