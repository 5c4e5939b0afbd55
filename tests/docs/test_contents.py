"""Cards of lessons, and what a page says of all: made of what each lesson says of itself."""

import importlib.util
import json
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
spec = importlib.util.spec_from_file_location("contents", ROOT / "docs" / "site" / "contents.py")
contents = importlib.util.module_from_spec(spec)
spec.loader.exec_module(contents)
QUESTION = "# 4. The hybrid\n\n*Which way suits\nit?*"
TAKES = "*About 35 minutes. First: [notebook 1](1_adding_up.ipynb),\n[2](2_parameter_server.ipynb).*"


@pytest.fixture
def lesson(tmp_path, monkeypatch):
    """Give lesson(name, opening): a notebook in a repository of its own."""
    monkeypatch.setattr(contents, "ROOT", tmp_path)
    (tmp_path / "notebooks").mkdir()

    def write(name, opening):
        cell = {"cell_type": "markdown", "metadata": {}, "source": opening.splitlines(keepends=True)}
        path = tmp_path / "notebooks" / f"{name}.ipynb"
        path.write_text(json.dumps({"cells": [cell]}), "utf-8")
        return path

    return write


@pytest.mark.parametrize("between", ["\n", "\n\n"])
def test_a_card_says_how_long_a_lesson_takes(lesson, between):
    card = contents.card(lesson("4_hybrid", f"{QUESTION}{between}{TAKES}\n\nMore.\n"))
    assert "\n\nWhich way suits\nit?\n:::{card-footer}\nAbout 35 minutes. First: notebook 1,\n2.\n:::\n::::" in card


def test_a_lesson_that_does_not_say_has_no_badge(lesson):
    card = contents.card(lesson("4_hybrid", f"{QUESTION}\n\n*About* 35 minutes ago.\n"))
    assert card.endswith("\n\nWhich way suits\nit?\n::::\n") and "footer" not in card


def test_how_long_they_take_is_counted(lesson):
    paths = [lesson(f"{n}_x", QUESTION + TAKES.replace("35", str(n))) for n in (20, 35, 25)]
    assert contents.length(paths) == "Three notebooks of 20 to 35 minutes each"
    assert contents.length([*paths, lesson("4_hybrid", QUESTION)]) == "Four notebooks"
