"""The site that ``make test-docs`` has built, and a Chromium to look at it."""

import os
import shutil
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
PATIENCE = 180_000
"""Milliseconds. On a busy machine a page took longer than playwright's half minute."""


class PatientBrowser:
    """A Chromium whose pages wait for PATIENCE."""

    def __init__(self, chromium):
        self.chromium = chromium

    def _patient(self, opened):
        opened.set_default_timeout(PATIENCE)
        return opened

    def new_context(self, **how):
        return self._patient(self.chromium.new_context(**how))

    def new_page(self, **how):
        return self._patient(self.chromium.new_page(**how))


@pytest.fixture(scope="session")
def site():
    if "REFIMPL_SITE" not in os.environ:
        pytest.skip("the site is built, then looked at, by make test-docs")
    return (ROOT / os.environ["REFIMPL_SITE"]).resolve()


@pytest.fixture(scope="session")
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
        yield PatientBrowser(chromium)
        chromium.close()
