"""What is read from Python files."""

import ast

import pytest

from docs.website.modules import read_module, read_modules
from docs.website.names import Names

SOURCE = '''"""First line,
and its second.

More."""
from dataclasses import dataclass
from refimpl.other import thing

LIMIT = 3
"""How many."""
_HIDDEN = 4
"""Not shown."""
UNSAID = 5


def run(a, /, b: int = 2, *rest, c=(1, 2), d: str = "x", **more) -> "list[int]":
    """Run."""


def alone(*, a=None): ...


def _private(): ...


@dataclass
class Point:
    """A point.  x: across."""

    x: int
    y: float = 0.0

    def norm(self) -> float:
        """Return it."""

    @property
    def flat(self) -> bool:
        """Whether."""

    @staticmethod
    def of(pair): ...


class Made(Point):
    def __init__(self, size: int, name_that_is_long: str = "and a default", another_long_one: float = 1.0, last=(0, 1)):
        self.kept = size
'''


@pytest.fixture
def entries():
    return {entry.name: entry for entry in read_module("refimpl/it.py", SOURCE).entries}


def test_public_names_in_their_order(entries):
    assert list(entries) == ["LIMIT", "run", "alone", "Point", "Made"]
    assert entries["LIMIT"].signature == "LIMIT = 3" and entries["LIMIT"].docstring == "How many."


def test_signatures(entries):
    assert entries["run"].signature == "run(a, /, b: int = 2, *rest, c=(1, 2), d: str = 'x', **more) -> list[int]"
    assert entries["alone"].signature == "alone(*, a=None)"
    assert entries["Point"].signature == "Point(x: int, y: float = 0.0)"
    assert entries["Made"].signature.startswith("Made(\n    size: int,\n    name_that_is_long: str = 'and a default',")
    signatures = {member.name: (member.kind, member.signature) for member in entries["Point"].members}
    assert signatures == {"Point.norm": ("method", "norm() -> float"), "Point.flat": ("property", "flat -> bool"),
                          "Point.of": ("method", "of(pair)")}


def test_a_signature_can_be_read_back_as_python(entries):
    arguments = ast.parse(f"def {entries['run'].signature}: ...").body[0].args
    assert ast.unparse(arguments).startswith("a, /, b: int=2, *rest")


def test_what_a_docstring_may_explain(entries):
    assert {"x", "y", "flat"} <= entries["Point"].parameters and {"size", "kept"} <= entries["Made"].parameters
    assert {"a", "rest", "more"} <= entries["run"].parameters


def test_summary_and_line():
    module = read_module("refimpl/it.py", SOURCE)
    assert module.summary == "First line, and its second."
    assert module.source.splitlines()[module.entries[1].line - 1].startswith("def run")


def test_folders_without_init_and_tests(repository):
    modules = read_modules(repository)
    assert modules["kernels.deep"].is_package and not modules["kernels.deep"].source
    assert modules["tests.test_one"].docstring == "Of one." and not modules["tests.test_one"].entries


def test_a_file_that_is_no_python_is_named(repository):
    (repository / "models" / "half.py").write_text("def f(:\n")
    with pytest.raises(SyntaxError) as caught:
        read_modules(repository)
    assert caught.value.filename == "models/half.py"


def test_names_are_found_where_they_live(repository):
    package = '"""All."""\nfrom models import two\n_HOME = {"one": "refimpl.one"}\n'
    (repository / "refimpl" / "__init__.py").write_text(package)
    modules = read_modules(repository)
    names, one = Names(modules), modules["refimpl.one"]
    assert names.find("one", one) == "reference/refimpl.one.html#one"
    assert names.find("two()", one) == "reference/models.html#two"
    assert names.find("refimpl.two", modules["kernels"]) == "reference/models.html#two"
    assert names.find("kernels.deep.one", one) == "reference/kernels.deep.one.html"
    assert names.find("nothing", one) is None and names.find("os.path", one) is None
