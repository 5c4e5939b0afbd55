"""Cards of lessons and guides, made of what each says of itself; the command line, made of its parsers."""

import json
import re
import subprocess
from pathlib import Path

import commands
import contents
import pytest

ROOT = Path(__file__).parents[2]
QUESTION = "# 4. The hybrid\n\n*Which way suits\nit?*"
TAKES = "*About 35 minutes. Builds on [notebook 1](1_adding_up.ipynb),\n[2](2_parameter_server.ipynb).*"


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
    footer = ":::{card-footer}\nAbout 35 minutes. Builds on notebook 1,\n2.\n:::\n::::"
    assert f"\n\nWhich way suits\nit?\n{footer}" in card


def test_a_lesson_that_does_not_say_has_no_badge(lesson):
    card = contents.card(lesson("4_hybrid", f"{QUESTION}\n\n*About* 35 minutes ago.\n"))
    assert card.endswith("\n\nWhich way suits\nit?\n::::\n") and "footer" not in card


def test_how_long_they_take_is_counted(lesson):
    paths = [lesson(f"{n}_x", QUESTION + TAKES.replace("35", str(n))) for n in (20, 35, 25)]
    assert contents.length(paths) == "Three notebooks of 20 to 35 minutes each"
    assert contents.length([*paths, lesson("4_hybrid", QUESTION)]) == "Four notebooks"


def test_every_page_is_in_one_group_of_guides():
    named = [path.name for group in contents.GUIDES for path in contents.guides(group)]
    pages = {path.name for path in (ROOT / "docs").glob("*.md")} - {"index.md"} | {"README.md"}
    assert sorted(named) == sorted(pages)


def test_no_page_begins_with_code():
    assert not [path.name for group in contents.GUIDES for path in contents.guides(group) if "```" in contents.card(path)]


def test_the_command_line_has_every_command_and_option_in_tables_of_two_columns():
    text = commands.markdown()
    assert {"## train", "### conformance run", "### collectives trees"} <= set(text.splitlines())
    assert all(f"`{option}`" in text for option in ("--backup-every", "--no-overlap", "--partition-scheme"))
    assert {len(re.findall(r"(?<!\\)\|", row)) for row in text.splitlines() if row.startswith("|")} == {3}
    assert "%%" not in text and "==SUPPRESS==" not in text


@pytest.mark.parametrize(("origin", "name"), [
    ("https://github.com/a/b.git", "a/b"), ("git@github.com:a/b.c", "a/b.c"), ("https://gitlab.com/a/b", ""), (None, "")])
def test_binder_gets_the_repository_from_which_the_clone_was_made(tmp_path, monkeypatch, origin, name):
    monkeypatch.delenv("REPOSITORY", raising=False)
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    if origin:
        subprocess.run(["git", "-C", tmp_path, "remote", "add", "origin", origin], check=True)
    assert contents.published(tmp_path) == name
    monkeypatch.setenv("REPOSITORY", "c/d")
    assert contents.published(tmp_path) == "c/d"
