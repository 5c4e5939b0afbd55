"""Draw mistakes in the product's code, each as a patch. Some quick test should fail after each.

    pip install --target SITE cosmic-ray
    PYTHONPATH=SITE python tests/laboratory/code_mutants.py FOLDER --seed 1 --count 60

The rooms take turns. In a room each line that computes is as likely, then each change of the line that cosmic-ray
knows. Apply a patch to another checkout (``git apply``), and run the quick tests of its room there.
"""

import argparse
import ast
import random
from difflib import unified_diff
from pathlib import Path

from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import mutate_code
from cosmic_ray.plugins import get_operator, operator_names

ROOMS = {"gradients": ("kernels", "refimpl/gradients"), "models": ("models",)} | {
    room: (f"refimpl/{room}",) for room in "collectives server strategies plan training transport".split()}
BITS, SAMES = "BitOr BitAnd BitXor RShift LShift", ("Is", "IsNot")
ARITHMETIC = ("arith_expr", "term", "power", "shift_expr", "expr", "and_expr", "xor_expr")


def sensible(name: str) -> bool:
    """Return whether a change keeps the kind of an operation. Others crash, or change only speed. Local."""
    kind, _, change = name.partition("/")[2].partition("_")
    old, _, new = change.partition("_")
    return (kind not in ("RemoveDecorator", "VariableReplacer", "VariableInserter")
            and not (kind == "ReplaceBinaryOperator" and (old in BITS) != (new in BITS))
            and not (kind == "ReplaceComparisonOperator" and (old in SAMES) != (new in SAMES)))


def passive(tree):
    """Yield the parts of a file that compute nothing: annotations, decorators, messages. Local."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.Raise, ast.JoinedStr, ast.Assert)) or getattr(node, "name", "") == "__repr__":
            yield node
        yield from filter(None, (getattr(node, "annotation", None), getattr(node, "returns", None)))
        yield from getattr(node, "decorator_list", ())


def sites(path: Path) -> dict:
    """Return line -> [(operator, its number in the file)] of all changes of a file. Local."""
    text, found = path.read_text(), {}
    spans = [((n.lineno, n.col_offset), (n.end_lineno, n.end_col_offset)) for n in passive(ast.parse(text))]
    nodes = [node for node in ast_nodes(get_ast(text)) if node.type not in ("name", "newline", "string")]
    for name in filter(sensible, operator_names()):
        positions = get_operator(name)().mutation_positions
        for number, (at, node) in enumerate((at, node) for node in nodes for at, _ in positions(node)):
            starred = "ReplaceBinary" in name and node.parent.type not in ARITHMETIC
            if not starred and not any(start <= at < end for start, end in spans):
                found.setdefault(at[0], []).append((name, number))
    return found


parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("folder", type=Path, help="where the patches shall lie")
parser.add_argument("--seed", type=int, default=1)
parser.add_argument("--count", type=int, default=60)
asked, lots = parser.parse_args(), {}
chance = random.Random(asked.seed)
for room, folders in ROOMS.items():
    lots[room] = [(path, some) for folder in folders for path in sorted(Path(folder).rglob("*.py"))
                  for some in sites(path).values()]
    chance.shuffle(lots[room])
asked.folder.mkdir(exist_ok=True)
for i in range(asked.count):
    path, some = lots[room := list(ROOMS)[i % len(ROOMS)]].pop()
    (name, number), text = chance.choice(some), path.read_text()
    changed = mutate_code(text, get_operator(name)(), number)
    (asked.folder / f"{i:02}-{room}.patch").write_text("".join(unified_diff(
        text.splitlines(True), changed.splitlines(True), f"a/{path}", f"b/{path}")))
