"""What pages say in words of the code and of the lessons is so."""

import json
import re
from pathlib import Path
from types import SimpleNamespace

import pytest

from refimpl.plain.consistencies import Bounded

ROOT = Path(__file__).parents[2]


def test_the_worker_that_waits_under_a_bound_is_the_one_that_the_page_names():
    page = " ".join((ROOT / "docs" / "without-barriers.md").read_text("utf-8").split())
    ((bound, steps),) = re.findall(r"With `bounded:(\d)` a worker that is more than (\d) steps ahead of the slowest", page)
    rule = Bounded(workers=2, steps=9, number=int(bound))
    assert rule.answers(SimpleNamespace(clocks=[int(steps), 0]), 0)
    assert not rule.answers(SimpleNamespace(clocks=[int(steps) + 1, 0]), 0)


@pytest.mark.parametrize("path", sorted(ROOT.glob("notebooks/*.ipynb")), ids=lambda path: path.stem)
def test_the_page_for_teachers_says_what_a_lesson_needs(path):
    opening = "".join(json.loads(path.read_text("utf-8"))["cells"][0]["source"])
    title, needs = re.match("# (.*)", opening)[1], re.search(r"Read first: (.*)\*$", opening, re.MULTILINE)[1]
    minutes = re.search(r"About (\d+) minutes", opening)[1]
    numbers = ", ".join(re.findall(r"[(](\d+)_", needs))
    page = (ROOT / "docs" / "teaching.md").read_text("utf-8")
    assert f"| {title} | {minutes} | {numbers}{' ' * bool(numbers)}|" in page.splitlines()
