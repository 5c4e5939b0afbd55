"""A small repository with one of everything that the site must show, and the site of this repository, built once."""

import json
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PICTURE = '<svg xmlns="http://www.w3.org/2000/svg" width="40" height="20"><path d="M0 20L40 0" stroke="#0072b2"/></svg>'


def cell(kind, source, outputs=None, tags=()):
    """Return a cell of a notebook as it is stored."""
    base = {"cell_type": kind, "id": "c", "metadata": {"tags": list(tags)} if tags else {}}
    text = source.splitlines(keepends=True)
    return base | {"source": text} | ({"execution_count": None, "outputs": outputs or []} if kind == "code" else {})


def printed(text, name="stdout"):
    """Return what a cell printed."""
    return {"output_type": "stream", "name": name, "text": text.splitlines(keepends=True)}


def shown(**data):
    """Return what a cell displayed: mime types with _ for / ."""
    return {"output_type": "display_data", "metadata": {}, "data": {k.replace("_", "/", 1): v for k, v in data.items()}}


CELLS = [
    cell("markdown", "# A sample & its *parts*\n\nThe [README](../README.md) says why $2^{a_i} < n$.\n"),
    cell("markdown", "## One\n\n$$\\frac{2 (N - 1)}{N} n$$\n\nIt costs 5 $ or 6 $.\n\n## One\n\n[back](#one)\n"),
    cell("code", "%%ranks 4\nprint(rank < size)\n", [printed("rank 0: \x1b[1mTrue\x1b[0m\nrank 1: True\n")]),
    cell("code", "picture", [shown(text_html='<img src="pictures/line.svg" alt="A line rises" />\n<details><summary>'
                                   "The picture in numbers</summary>\n\n<pre>0 1</pre>\n\n</details>",
                                   text_plain="A line rises\n0 1")], ["measured"]),
    cell("code", "answer = ...\ncheck(answer)\n", [shown(text_plain="not answered yet")], ["exercise"]),
    cell("markdown", "<details><summary>Solution</summary>\n\n```python\nanswer = 6 < 7\n```\n\n</details>\n"),
    cell("code", "1 / 0", [{"output_type": "error", "ename": "ZeroDivisionError", "evalue": "division by zero",
                            "traceback": ["ZeroDivisionError: division by zero"]}], ["raises-exception"]),
    cell("code", "", []),
]
FILES = {
    "README.md": "# Project\n\nWhat it is.\n\n## Start\n\n[one](refimpl/one.py) [tests](tests) [make](Makefile#L-1)\n",
    "Makefile": "all:\n\techo\n",
    "docs/guide.md": "# Guide\n\nA way. ![A line](../notebooks/pictures/line.svg)\n",
    "docs/findings.md": "# Findings\n\nNone.\n",
    "notebooks/pictures/line.svg": PICTURE,
    "notebooks/1_sample.ipynb": json.dumps({"cells": CELLS, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}),
    "refimpl/__init__.py": '"""All of it."""\n',
    "refimpl/one.py": ('"""One: see ``two``."""\nfrom models import two\n\n\n'
                       'def one(n):\n    """Return n.\n\n    n: any.\n    """\n'),
    "models/__init__.py": '"""Models."""\n\n\ndef two():\n    """Return 2. Local."""\n',
    "kernels/deep/one.py": '"""Deep."""\n',
    "tests/test_one.py": '"""Of one."""\n\n\ndef test_one():\n    """Not in the reference."""\n',
}


@pytest.fixture
def repository(tmp_path):
    """A small repository; a test may add to it, or spoil it."""
    root = tmp_path / "repository"
    for name, text in FILES.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


@pytest.fixture(scope="session")
def modules():
    """The Python files of this repository, listed before its site is built: others may come while tests run."""
    return [path.relative_to(ROOT).with_suffix("") for top in ("refimpl", "models", "kernels")
            for path in (ROOT / top).rglob("*.py")]


@pytest.fixture(scope="session")
def site(tmp_path_factory, modules):
    """The folder with the site of this repository."""
    pytest.importorskip("latex2mathml", reason="the extra docs is not installed: make test-docs")
    from docs.website.build import build

    folder = tmp_path_factory.mktemp("site")
    build(ROOT, folder)
    return folder
