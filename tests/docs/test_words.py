"""What pages say in words of the code and of the lessons is so."""

import ast
import json
import re
from pathlib import Path
from types import SimpleNamespace

import pytest

from refimpl.plain.without_barriers.consistencies import Bounded

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
    title, needs = re.match("# (.*)", opening)[1], re.search(r"Builds on (.*)\*$", opening, re.MULTILINE)[1]
    minutes = re.search(r"About (\d+) minutes", opening)[1]
    numbers = ", ".join(re.findall(r"[(](\d+)_", needs))
    page = (ROOT / "docs" / "teaching.md").read_text("utf-8")
    assert f"\n| {title} | {minutes} | {numbers}{' ' * bool(numbers)}| " in page


def test_the_lesson_on_channels_has_the_times_of_the_page_of_measurements():
    cells = json.loads((ROOT / "notebooks" / "13_channel.ipynb").read_text("utf-8"))["cells"]
    (source,) = (text for text in ("".join(cell["source"]) for cell in cells) if "measured = {" in text)
    measured = ast.literal_eval(re.search("^measured = ({.*})", source, re.MULTILINE)[1])
    table = (ROOT / "docs" / "measured.md").read_text("utf-8").partition("Between two emulated machines at")[2]
    rows = re.findall(r"^\| (\d+ \w+) " + r"\| ([\d.,]+) " * 5 + r"\|$", table, re.MULTILINE)
    times = {size: (float(calls.replace(",", "")), float(landing.replace(",", ""))) for size, _, landing, _, calls, _ in rows}
    assert [times[size] for size in ("64 B", "512 B", "4 KiB", "32 KiB", "2 MiB")] == [
        *zip(measured["gRPC"], measured["landing"])]
