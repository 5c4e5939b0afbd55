"""The rooms of docs/design.md: each imports only from rooms below it, by the real imports; nothing goes in a circle.

    python tests/test_rooms.py         print the ladder: each room, and what it imports from the rooms below
"""

import ast
from collections import defaultdict
from dataclasses import dataclass
from functools import cache
from itertools import combinations
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
parse = cache(ast.parse)  # several tests read all files
ABOVE = "refimpl"  # refimpl/__init__.py and __main__.py hand everything on: above all rooms
LADDER = (ABOVE, "cli", "notebook", "experiments", "pictures", "conformance", "enclosure", "torch", "jax", "svm",
          "training", "strategies", "plan", "server", "collectives", "transport", "gradients", "plain", "json_file",
          "handed_on", "words", "models", "kernels")
"""From top to bottom. json_file, handed_on and words import nothing of ours; all of refimpl may use them."""


@dataclass(frozen=True)
class Import:
    """``target``, a module, is imported by ``module`` in ``file`` at ``line``."""

    file: str
    line: int
    module: str
    target: str

    @property
    def rooms(self) -> tuple[str, str]:
        return room_of(self.module), room_of(self.target)


def room_of(module: str) -> str:
    """Return the room of a module of ours: the part behind refimpl, or models or kernels."""
    top, *below = module.split(".")
    return below[0] if top == "refimpl" and below and below[0] != "__main__" else top


def modules_below(root: Path) -> dict[str, Path]:
    """Return name -> file of each module of refimpl, models and kernels."""
    files = (path for top in ("refimpl", "models", "kernels") for path in (root / top).rglob("*.py"))
    return {".".join(path.relative_to(root).with_suffix("").parts).removesuffix(".__init__"): path for path in files}


@cache
def imports_below(root: Path) -> list[Import]:
    """Return every import of one of our modules by another: also within functions, and by a name in a string."""
    modules, found = modules_below(root), []
    for module, path in sorted(modules.items()):
        for node in ast.walk(parse(path.read_text(encoding="utf-8"))):
            for target in _targets(node, module if path.name == "__init__.py" else module.rpartition(".")[0]):
                while target and target not in modules:  # a name within a module
                    target = target.rpartition(".")[0]
                if target and target != module:
                    found.append(Import(str(path.relative_to(root)), node.lineno, module, target))
    return sorted(set(found), key=lambda one: (one.file, one.line, one.target))


def _targets(node, package):
    """Yield the dotted names that a node of the syntax tree may import."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        base = package.rsplit(".", node.level - 1)[0] if node.level else ""
        base = ".".join(part for part in (base, node.module) if part)
        yield from (f"{base}.{alias.name}" for alias in node.names)
    elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.startswith("refimpl."):
        if all(part.isidentifier() for part in node.value.split(".")):  # importlib, python -m, names handed on
            yield node.value


def upward(imports: list[Import]) -> list[str]:
    """Return a line for each import of a room that is not below its own, with what to do."""
    lines = []
    for one in imports:
        upper, lower = (LADDER.index(room) if room in LADDER else None for room in one.rooms)
        if upper is None or lower is None:
            lines.append(f"{one.file}:{one.line}: {one.module} imports {one.target}, and a room is not in LADDER: "
                         f"give the new room its place there and in docs/design.md")
        elif lower < upper:
            lines.append(f"{one.file}:{one.line}: {one.rooms[0]} imports {one.target}, which is above it: move what is "
                         f"needed down to {one.rooms[0]} or below, or what needs it up to {one.rooms[1]}")
    return lines


def packages_in_circles(imports: list[Import]) -> list[str]:
    """Return a line for each two packages of one room that reach each other, modules of its top counting alone."""
    places = {}
    for one in imports:
        if one.rooms[0] == one.rooms[1]:
            upper, lower = (".".join(module.split(".")[:3 if module.startswith("refimpl.") else 2])
                            for module in (one.module, one.target))
            if upper != lower and "." in upper.removeprefix("refimpl.") and "." in lower.removeprefix("refimpl."):
                places.setdefault((upper, lower), f"{one.file}:{one.line}")
    return _circles(places)


def modules_in_circles(imports: list[Import]) -> list[str]:
    """Return a line for each two modules that reach each other, also by imports within functions."""
    return _circles({(one.module, one.target): f"{one.file}:{one.line}" for one in reversed(imports)})


def _circles(places: dict[tuple[str, str], str]) -> list[str]:
    """Return a line for each import that goes in a circle. places: (importer, imported) -> where it is written."""
    edges = defaultdict(set)
    for upper, lower in places:
        edges[upper].add(lower)
    pairs = sorted((a, b) for a, b in places if a in _reachable(edges, b))
    return [f"{places[a, b]}: {a} imports {b}, which imports {a}: move what both need into a third" for a, b in pairs]


def names_of_two_classes(root: Path) -> list[str]:
    """Return a line for each two files with classes of one name; a name that begins with _ is its file's own.

    A mechanism keeps its name where it is fast, beside the plain file; so does what torch and jax have alike.
    """
    found = defaultdict(set)
    for module, path in modules_below(root).items():
        for node in ast.walk(parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found[node.name].add((module, str(path.relative_to(root))))
    return [f"class {name} is in {one} and in {other}: give each a name of its own"
            for name, places in sorted(found.items()) for (a, one), (b, other) in combinations(sorted(places), 2)
            if (rooms := {room_of(a), room_of(b)}) != {"torch", "jax"} and ("plain" not in rooms or len(rooms) == 1)]


def _reachable(edges, start) -> set[str]:
    seen, todo = set(), [start]
    while todo:
        for target in edges.get(todo.pop(), set()) - seen:
            seen.add(target)
            todo.append(target)
    return seen


def ladder(imports: list[Import]) -> str:
    """Return the rooms from top to bottom, each with the rooms that it imports and how often."""
    counts = {room: defaultdict(int) for room in LADDER}
    for one in imports:
        upper, lower = one.rooms
        if upper != lower:
            counts[upper][lower] += 1
    below = {room: "  ".join(f"{lower} {counts[room][lower]}" for lower in LADDER if counts[room][lower])
             for room in LADDER}
    return "\n".join(f"{room:12} {below[room]}".rstrip() for room in LADDER)


def helpers_of_one_name(tests: Path) -> set[str]:
    """Return file names of helpers that two folders of tests have: whoever imports one by its name may get the other's.
    """
    names = [path.name for path in tests.rglob("*.py") if not (path.parent / "__init__.py").exists()
             and not path.name.startswith(("test_", "__")) and path.name != "conftest.py"]
    return {name for name in names if names.count(name) > 1}


def test_no_two_helpers_of_tests_have_one_name(tmp_path):
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "toys.py").touch()
    assert helpers_of_one_name(tmp_path) == {"toys.py"}
    assert helpers_of_one_name(ROOT / "tests") == set()


def test_each_room_imports_only_what_is_below_it():
    assert upward(imports_below(ROOT)) == []


def test_to_train_takes_no_experiment():
    assert "refimpl.experiments" not in {".".join(one.target.split(".")[:2]) for one in imports_below(ROOT)
                                         if one.module == "refimpl.cli.train" or one.rooms[0] == "training"}


def test_no_two_packages_of_a_room_import_each_other():
    assert packages_in_circles(imports_below(ROOT)) == []


def test_no_two_modules_import_each_other():
    assert modules_in_circles(imports_below(ROOT)) == []


def test_no_two_files_have_classes_of_one_name():
    assert names_of_two_classes(ROOT) == []


def test_no_experiment_imports_another():
    """What two need is in ``cells``, ``cluster``, ``replay`` or ``bench``."""
    of = {name: f"refimpl.experiments.{name}" for name in ("parallax", "consistency", "mesh", "trees")}
    assert [one for one in imports_below(ROOT) for name, package in of.items() if one.module.startswith(package)
            and any(one.target.startswith(other) for another, other in of.items() if another != name)] == []


@pytest.fixture
def house(tmp_path):
    """Return a function that writes modules into a house of their own, and returns its imports."""
    def build(**sources):
        for name, source in sources.items():
            path = tmp_path / f"{name.replace('__', '/')}.py"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(source)
            for folder in path.relative_to(tmp_path).parents[:-1]:
                (tmp_path / folder / "__init__.py").touch()
        return imports_below(tmp_path)

    return build


@pytest.mark.parametrize("source", [
    "import refimpl.cli.options", "from refimpl.cli.options import split", "from refimpl.cli import options",
    "def later():\n    from refimpl.cli import options", "from ..cli import options", "PLACE = 'refimpl.cli.options'",
])
def test_an_import_upwards_is_named_with_its_line_and_a_remedy(house, source):
    line = upward(house(refimpl__plan__search=source, refimpl__cli__options="def split(): pass"))
    assert line == [f"refimpl/plan/search.py:{source.count(chr(10)) + 1}: plan imports refimpl.cli.options, which is "
                    "above it: move what is needed down to plan or below, or what needs it up to cli"]


def test_the_core_knows_nothing_of_refimpl(house):
    lines = upward(house(kernels__rows="import refimpl.cli", models__lm="from kernels import rows",
                         refimpl__cli__run=""))
    assert len(lines) == 1 and lines[0].startswith("kernels/rows.py:1: kernels imports refimpl.cli, which is above it")


def test_a_room_without_a_place_is_named(house):
    lines = upward(house(refimpl__attic__box="", refimpl__cli__options="import refimpl.attic.box"))
    assert "give the new room its place" in lines[0]


def test_a_circle_between_packages_is_named(house):
    lines = packages_in_circles(house(
        refimpl__plan__search__walk="from refimpl.plan.price import net",
        refimpl__plan__fit="import refimpl.plan.search",
        refimpl__plan__price__net="from refimpl.plan import fit"))
    assert len(lines) == 3 and all("move what both need into a third" in line for line in lines)


def test_a_circle_within_a_package_is_named(house):
    lines = modules_in_circles(house(
        kernels__cuda__kernel="def load():\n    from kernels.cuda import ptx",
        kernels__cuda__ptx="from kernels.cuda.text import BLOCK",
        kernels__cuda__text="import kernels.cuda.kernel, kernels.digest", kernels__digest=""))
    assert len(lines) == 3 and lines[0] == ("kernels/cuda/kernel.py:2: kernels.cuda.kernel imports kernels.cuda.ptx, "
                                            "which imports kernels.cuda.kernel: move what both need into a third")


def test_two_classes_of_one_name_are_named(house, tmp_path):
    house(refimpl__plan__search="class Fit: pass\nclass _File: pass", refimpl__plan__price__net="class Fit: pass",
          refimpl__plain__server="class Server: pass", refimpl__server__rows="class Server: pass\nclass _File: pass",
          refimpl__torch__model="class Batch: pass", refimpl__jax__model="class Batch: pass")
    assert names_of_two_classes(tmp_path) == [
        "class Fit is in refimpl/plan/price/net.py and in refimpl/plan/search.py: give each a name of its own"]


def test_the_ladder_is_printed(house):
    text = ladder(house(refimpl__plan__search="import kernels.rows", kernels__rows=""))
    assert "plan         kernels 1" in text.splitlines() and text.splitlines()[0] == ABOVE


if __name__ == "__main__":
    print(ladder(imports_below(ROOT)))
