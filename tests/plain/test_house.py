"""The house rules of plain/: short files that import nothing fast, and say what every public thing means."""

import ast
import sys
from pathlib import Path

import pytest

PLAIN = Path(__file__).parents[2] / "refimpl" / "plain"
MOST_LINES, WIDEST = 147, 120
DEFINITIONS = {"RowGradient", "key_of"}
"""What may be taken from a kernel's package itself: its functions pick a fast version."""


def breaches(folder):
    """Return what is wrong with the files of a folder, "file: what"."""
    found = []
    for path in sorted(folder.rglob("*.py")):
        text = path.read_text("utf-8")
        tree, lines = ast.parse(text), text.splitlines()
        wrong = [f"{len(lines)} lines"] if len(lines) > MOST_LINES else []
        wrong += [f"line {i} is {len(line)} wide" for i, line in enumerate(lines, 1) if len(line) > WIDEST]
        wrong += [f"imports {name}" for name in imported(tree) if not allowed(name)]
        wrong += [f"{name} has no docstring" for name in silent(tree)]
        found += [f"{path.name}: {what}" for what in wrong]
    return found


def imported(tree):
    """Return "module" or "module:name" of every import, wherever it stands."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            found += [f"{'.' * node.level}{node.module or ''}:{alias.name}" for alias in node.names]
    return found


def allowed(name):
    """Return whether plain/ may import this."""
    module, _, what = name.partition(":")
    room = module.partition(".")[0]
    if room == "kernels":
        return what in DEFINITIONS or module.endswith((".definition", ".rates"))
    return (room in sys.stdlib_module_names or room in ("numpy", "scipy", "mpi4py", "models")
            or module.startswith("refimpl.plain"))


def silent(tree):
    """Return the public modules, classes, functions and methods without a docstring."""
    nodes = [(node, node.name) for node in ast.walk(tree) if isinstance(node, (ast.FunctionDef, ast.ClassDef))]
    inner = {inside for node, _ in nodes if isinstance(node, ast.FunctionDef)
             for inside in ast.walk(node) if inside is not node}
    return [name for node, name in [(tree, "the file"), *nodes]
            if not name.startswith("_") and node not in inner and not ast.get_docstring(node)]


def test_plain_keeps_its_rules():
    assert breaches(PLAIN) == []


def test_every_file_is_in_the_order_to_read_them():
    words = (PLAIN / "__init__.py").read_text("utf-8").replace(",", " ").split()
    assert [path.stem for path in PLAIN.rglob("*.py") if path.stem not in words and path.stem != "__init__"] == []


@pytest.mark.parametrize("text, breach", [
    ('"""A."""\n' + "x = 1\n" * MOST_LINES, f"a.py: {MOST_LINES + 1} lines"),
    ('"""A."""\nx = "' + "x" * 120 + '"\n', "a.py: line 2 is 126 wide"),
    ('"""A."""\nimport torch\n', "a.py: imports torch"),
    ('"""A."""\nfrom refimpl.server import Shards\n', "a.py: imports refimpl.server:Shards"),
    ('"""A."""\nimport refimpl\n', "a.py: imports refimpl"),
    ('"""A."""\nfrom . import server\n', "a.py: imports .:server"),
    ('"""A."""\nfrom kernels.rows import merge_rows\n', "a.py: imports kernels.rows:merge_rows"),
    ('"""A."""\ndef f():\n    from kernels.update.fast import sgd\n', "a.py: imports kernels.update.fast:sgd"),
    ("x = 1\n", "a.py: the file has no docstring"),
    ('"""A."""\nclass A:\n    """B."""\n    def f(self):\n        pass\n', "a.py: f has no docstring"),
])
def test_each_rule_is_checked(tmp_path, text, breach):
    (tmp_path / "a.py").write_text(text)
    assert breach in breaches(tmp_path)
