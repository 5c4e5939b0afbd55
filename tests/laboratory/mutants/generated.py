"""Mistakes that a tool makes in the specification's code, so that nobody chose them: what the suite makes of each.

    PYTHONPATH=tests/laboratory python -m mutants.generated --half A --ranks 2

A mutant is ``refimpl.plain``'s sums, updates and optimizers with one place of their code changed: an operator, a
comparison, a number, a condition, or a statement that is left out. The reference adapter runs on it; what the suite
expects is computed by the code as it is.

Who writes deviations may look at the mutants of half A, and not at those of half B: of B only counts are printed.
"""

import argparse
import ast
import random
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import ModuleType

import numpy as np

from mutants.places import Truth, placed, truth_of
from mutants.run import cases_for
from refimpl.conformance.adapters.reference import Reference
from refimpl.conformance.diagnose import summary
from refimpl.conformance.diagnose.search import tried
from refimpl.conformance.kinds import KINDS
from refimpl.conformance.runner import answers_of, run_local
from refimpl.conformance.semantics import CHOICES, Semantics
from refimpl.conformance.space.by_rule import OTHER
from refimpl.conformance.space.optimizers import USUAL

ROOT = Path(__file__).parents[3] / "refimpl"
FILES = {"sgd": "plain/updating/sgd.py", "optimizers": "plain/updating/optimizers.py",
         "optimizers_elsewhere": "plain/updating/optimizers_elsewhere.py",
         "sums": "plain/adding/sums.py", "updates": "plain/updating/updates.py",
         "reference": "conformance/adapters/reference.py"}
"""In the order in which they import each other; the last one is not changed."""
OPERATORS = {**OTHER, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.Lt: ast.Gt, ast.LtE: ast.Lt, ast.Gt: ast.Lt,
             ast.And: ast.Or, ast.Or: ast.And}
RIGHT = {
    "optimizers": {"formula", "rate", "clock", *USUAL},
    "mean over fold merge leaf divisors apart": {"contribution", "duplicates", "parts", "members", "combined",
                                                 "divisor", "delivered", "dense", "sparse", "divide", "order"},
    "weights": {"weights", "loss"},
    "norm_of scale factor clip_factor scaled clipped aggregated": {"norm", "scale", "clipped", "clip_norm",
                                                                   "clip_point"},
    "windows accumulated micro_steps added": {"accumulated", "loss scale", "micro-steps", "ticks", "window", "partial",
                                              "delivered", "divisor", "contribution", "duplicates"},
    "rate tick update": {"rate", "clock", "ticks", "restored variable", "updates"},
    "save load": {"clock", "ticks", "restored variable"},
    "first_values first_state": {"start", "formula", "before"},
    "apply_all apply_one placed formula": {"updates", "formula", "rate", "clock", "untouched", "adam", "visible",
                                           *USUAL},
}
"""Methods, or a whole file -> the decisions and fields of a manifest, one of which a right name is about."""


@dataclass(frozen=True)
class Site:
    """A place that can be changed. number: of the nodes of its kind in the file, as ``ast.walk`` meets them."""

    file: str
    method: str
    number: int
    line: int


def changes(node) -> bool:
    """Return whether ``changed`` can do something with a node of a function. Local."""
    return (isinstance(node, (ast.BoolOp, ast.IfExp, ast.If))
            or isinstance(node, ast.BinOp) and type(node.op) in OPERATORS
            or isinstance(node, ast.Compare) and type(node.ops[0]) in OPERATORS
            or isinstance(node, ast.Constant) and type(node.value) in (int, float)
            or isinstance(node, (ast.AugAssign, ast.Expr)) and not isinstance(node.value, ast.Constant))


def changed(node):
    """Return the node with its mistake. Local."""
    if isinstance(node, (ast.BinOp, ast.BoolOp)):
        node.op = OPERATORS[type(node.op)]()
    elif isinstance(node, ast.Compare):
        node.ops[0] = OPERATORS[type(node.ops[0])]()
    elif isinstance(node, ast.Constant):
        node.value = {0: 1, 1: 2}.get(node.value, node.value * 2)
    elif isinstance(node, ast.IfExp):
        node.body, node.orelse = node.orelse, node.body
    elif isinstance(node, ast.If):
        node.test = ast.UnaryOp(ast.Not(), node.test)
    else:
        return ast.copy_location(ast.Pass(), node)
    return node


def nodes(tree):
    """Yield (method, node) of all that can be changed, in a fixed order. Local."""
    for function in (n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef)):
        for node in ast.walk(function):
            if changes(node):
                yield function.name, node


def tree_of(file: str):
    """Return a file's syntax tree; what it imports of the others is the mutant's. Local."""
    text = (ROOT / FILES[file]).read_text("utf-8")
    for other in FILES:
        module = FILES[other].removesuffix(".py").replace("/", ".")
        text = text.replace(f"from refimpl.{module} import", f"from mutated_{other} import")
    return ast.parse(text)


@cache
def sites() -> list[Site]:
    """Return every place that can be changed. Local."""
    return [Site(file, method, number, node.lineno) for file in list(FILES)[:-1]
            for number, (method, node) in enumerate(nodes(tree_of(file)))]


def half(which: str) -> list[Site]:
    """Return one half of the places, "A" or "B": drawn once and for all. Local."""
    drawn = random.Random(41).sample(sites(), len(sites()))
    return drawn[::2] if which == "A" else drawn[1::2]


class Mistake(ast.NodeTransformer):
    """Changes one node of a tree."""

    def __init__(self, node):
        self.node = node

    def visit(self, node):
        """Return the node, changed if it is the one."""
        return changed(node) if node is self.node else self.generic_visit(node)


def adapter(site: Site):
    """Return the reference adapter's class on code with this mistake. Local."""
    for file in FILES:
        tree = tree_of(file)
        if file == site.file:
            tree = Mistake(list(nodes(tree))[site.number][1]).visit(tree)
        module = sys.modules[f"mutated_{file}"] = ModuleType(f"mutated_{file}")
        exec(compile(ast.fix_missing_locations(tree), FILES[file], "exec"), vars(module))
    return sys.modules["mutated_reference"].Reference


@cache
def decisions_of(ranks: int) -> dict[str, set]:
    """Return code of a deviation -> its decisions, or fields of a manifest. Local."""
    found: dict[str, set] = {}
    for machine in dict.fromkeys(kind.machine for kind in KINDS.values() if kind.machine):
        cases = [case for case in cases_for(ranks, "") if KINDS[case.kind].machine is machine]
        for d in tried(machine, Semantics(), cases) if cases else ():
            found.setdefault(d.code, set()).update(d.decisions, d.rules)
    return {**found, "scaled": {"divisor"}, "rate": {"rate"}}


def about(code: str, ranks: int) -> set:
    """Return what a diagnosis is about: decisions or fields; set() where it names nothing. Local."""
    parts = code.split(" and ")
    return set().union(*(decisions_of(ranks).get(part, {part.partition("=")[0]} & set(CHOICES)) for part in parts))


def right_for(site: Site) -> set:
    """Return what a right name of a mutant's mistake is about. Local."""
    if site.file.startswith(("sgd", "optimizers")):
        return RIGHT["optimizers"]
    return next((right for names, right in RIGHT.items() if site.method in names.split()), set())


def where(site: Site) -> Truth:
    """Return where a mutant's mistake acts. Local."""
    tree = tree_of(site.file)
    return truth_of(site, tree, list(nodes(tree))[site.number][1])


def numbers_differ(make, ranks: int) -> bool:
    """Return whether any number of any answer has other bits than the right adapter's. Local."""
    def bits(adapter, case):
        return [{name: [np.asarray(x).tobytes() for x in (part if isinstance(part, tuple) else (part,))]
                 for name, part in step.items()} for one in answers_of(adapter, case)[1] for step in one.steps]

    return any(bits(make, case) != bits(Reference, case) for case in cases_for(ranks, ""))


def judged(site: Site, ranks: int) -> dict:
    """Return what the suite makes of a mutant: seen, raises, named, false, placed, unlike, sentences. Local.

    raises: a rank ends with an error, which says where.  placed: each sentence puts the mistake where it acts.
    unlike: it is not seen, though some number has other bits.
    """
    try:
        make = adapter(site)
        failed = run_local(make, ranks, cases_for(ranks, "")).failed
    except Exception as problem:  # it cannot even be made
        return {"seen": True, "raises": True, "named": False, "false": False, "placed": False, "unlike": False,
                "sentences": [repr(problem)]}
    found = summary(failed)
    told, wanted = [diagnosis for diagnosis, _ in found], right_for(site)
    named = [d for d in told if not d.vague and about(d.code, ranks)]
    return {"seen": bool(failed), "raises": any(d.code == "error" for d in told),
            "named": bool(named) and bool(about(named[0].code, ranks) & wanted),
            "unlike": not failed and numbers_differ(make, ranks),
            "false": any(not about(d.code, ranks) & wanted for d in named),
            "placed": bool(found) and all(placed(where(site), d, cases, ranks, d in named and bool(
                about(d.code, ranks) & wanted)) for d, cases in found),
            "sentences": [f"{d.code}: {d.words}" for d in told]}


def counts(rows) -> str:
    """Return what became of some mutants, in numbers. Local."""
    seen = [row for row in rows if row["seen"]]
    wrong = [row for row in seen if not row["raises"]]
    unlike = sum(row["unlike"] for row in rows)
    return (f"{len(rows)} mutants: {len(seen)} seen; {unlike} not seen though some number has other bits; "
            f"{len(rows) - len(seen) - unlike} change no bit of any answer. Of those seen {len(seen) - len(wrong)} end "
            f"with an error; of the other {len(wrong)} {sum(r['named'] for r in wrong)} are named by the decision that "
            f"the mistake is in, {sum(r['placed'] for r in wrong)} are put where it acts, "
            f"{sum(len(r['sentences']) <= 2 for r in wrong)} are explained in one or two sentences, "
            f"{sum(r['false'] for r in wrong)} have a name of another decision")


def main(arguments=None) -> int:
    """Print what becomes of some mutants, and the counts: of each file, and of all."""
    parser = argparse.ArgumentParser(prog="python -m mutants.generated", description=__doc__)
    parser.add_argument("--count", type=int, metavar="N", help="how many, drawn by the seed (default: all)")
    parser.add_argument("--seed", type=int, default=1, metavar="S", help="which ones (default 1)")
    parser.add_argument("--half", choices="AB", help="of which half (default: both)")
    parser.add_argument("--ranks", type=int, default=2, metavar="N", help="default 2")
    asked = parser.parse_args(arguments)
    some, files = half(asked.half) if asked.half else sites(), {}
    for site in random.Random(asked.seed).sample(some, asked.count or len(some)):
        files.setdefault(site.file, []).append(row := judged(site, asked.ranks))
        marks = [word for word in ("seen", "raises", "named", "false", "placed", "unlike") if row[word]]
        if site in half("A"):
            print(f"{site.file}.{site.method}, line {site.line}: {', '.join(marks) or 'not seen'}; "
                  f"{' / '.join(row['sentences'][:3])[:300]}", flush=True)
    for file, rows in files.items():
        print(f"{file}: {counts(rows)}")
    print(f"all: {counts(sum(files.values(), []))}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
