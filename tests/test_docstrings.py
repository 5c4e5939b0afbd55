"""Every public definition says in a line what it is: read from the source, nothing is imported.

A method may leave it to the method that it overrides, or to a Protocol (``models.Model``, ``models.data.Data``) that
has a method of its name; a function of a kernel's version, to the ``definition`` beside it.
"""

import ast
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
parse = cache(ast.parse)  # several tests read all files
ELSEWHERE = {"refimpl/conformance/suite.py": "its module's docstring: what pytest runs"}
"""Files whose classes and functions are described, each, in another place."""


def documented(root: Path) -> dict[str, tuple[set, set]]:
    """Return class name -> (names of its bases, its methods that have a docstring); "" has all Protocols' methods."""
    found: dict[str, tuple[set, set]] = {"": (set(), set())}
    for top in ("refimpl", "models", "kernels"):
        for path in (root / top).rglob("*.py"):
            for node in ast.walk(parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.ClassDef):
                    bases = {ast.unparse(base).rpartition(".")[2] for base in node.bases}
                    methods = {m.name for m in node.body if isinstance(m, ast.FunctionDef) and ast.get_docstring(m)}
                    found.setdefault(node.name, (set(), set()))
                    found[node.name][0].update(bases)
                    found[node.name][1].update(methods)
                    found[""][1].update(methods if "Protocol" in bases else ())
    return found


@cache
def ours():
    """Return what is documented in this project, which is read once."""
    return documented(ROOT)


def inherited(classes, name, method) -> bool:
    """Return whether a base of a class, or a Protocol, documents a method."""
    bases = classes[name][0] & classes.keys() - {name}
    return method in classes[""][1] or any(method in classes[b][1] or inherited(classes, b, method) for b in bases)


def defined(path: Path) -> set[str]:
    """Return the functions that the definition beside a kernel's other versions documents."""
    definition = path.with_name("definition.py")
    body = parse(definition.read_text(encoding="utf-8")).body if definition.exists() else []
    return {node.name for node in body if isinstance(node, ast.FunctionDef) and ast.get_docstring(node)}


def silent(path: Path, classes) -> list[str]:
    """Return a line for each public definition of a file that says nothing of itself."""
    def look(body, within, owner):
        for node in body:
            if not isinstance(node, (ast.FunctionDef, ast.ClassDef)) or node.name.startswith("_"):
                continue
            setter = any(ast.unparse(decorator).endswith(".setter") for decorator in node.decorator_list)
            elsewhere = inherited(classes, owner, node.name) if owner else node.name in defined(path)
            if not ast.get_docstring(node) and not setter and not elsewhere:
                lines.append(f"{path}:{node.lineno}: {within}{node.name} has no docstring: say in a line what it is")
            if isinstance(node, ast.ClassDef):
                look(node.body, f"{within}{node.name}.", node.name)

    tree, lines = parse(path.read_text(encoding="utf-8")), []
    if not ast.get_docstring(tree):
        lines.append(f"{path}:1: the module has no docstring: say in a line what it is for")
    look(tree.body, "", "")
    return lines


@pytest.mark.parametrize("package", ("refimpl", "models", "kernels"))
def test_every_public_definition_says_what_it_is(package):
    classes, lines = ours(), []
    for path in sorted((ROOT / package).rglob("*.py")):
        if str(path.relative_to(ROOT)) not in ELSEWHERE:
            lines += [line.removeprefix(f"{ROOT}/") for line in silent(path, classes)]
    assert lines == []


def test_a_silent_definition_is_named_with_its_line(tmp_path):
    (tmp_path / "refimpl").mkdir()
    file = tmp_path / "refimpl" / "parts.py"
    file.write_text('"""Parts."""\n\nclass Base:\n    """A base."""\n\n    def told(self):\n        """Tell."""\n\n\n'
                    "class Silent(Base):\n    def told(self): pass\n    def untold(self): pass\n"
                    "    def _own(self): pass\n")
    assert silent(file, documented(tmp_path)) == [
        f"{file}:10: Silent has no docstring: say in a line what it is",
        f"{file}:12: Silent.untold has no docstring: say in a line what it is"]
    (file.parent / "definition.py").write_text('def told():\n    """Tell."""\n\n\ndef mute(): pass\n')
    file.write_text('"""Parts."""\n\ndef told(): pass\n\n\ndef mute(): pass\n')
    assert silent(file, documented(tmp_path)) == [f"{file}:6: mute has no docstring: say in a line what it is"]
    file.write_text("x = 1\n")
    assert silent(file, documented(tmp_path)) == [
        f"{file}:1: the module has no docstring: say in a line what it is for"]
