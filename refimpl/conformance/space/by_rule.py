"""Mistakes made by rules: in a line of a formula, a number, a count of updates, or a list of contributions."""

import ast
import inspect
import re
import sys
from copy import deepcopy
from itertools import combinations
from textwrap import dedent

import numpy as np

from refimpl.conformance.space.deviation import Deviation, anywhere
from refimpl.conformance.space.manifest import has

NUMBERS = (
    ("missing", "1 takes the place of {}", lambda x, n: np.ones_like(x)),
    ("squared", "{} is applied twice", lambda x, n: x * x),
    ("inverted", "{} divides what it should multiply, or the reverse", lambda x, n: 1 / x),
    ("times-n", "{} is multiplied by N", lambda x, n: x * n), ("by-n", "{} is divided by N", lambda x, n: x / n),
    ("doubled", "{} is twice as large", lambda x, n: x * 2), ("halved", "{} is half as large", lambda x, n: x / 2),
    ("plus-one", "{} is one too large", lambda x, n: x + 1),
    ("minus-one", "{} is one too small", lambda x, n: np.maximum(1, x - 1)),
    ("negated", "{} has the other sign", lambda x, n: -x),
)
"""(code, words, change(number, N))."""


def wrong_numbers(decision: str, words: str, concerns=anywhere, but=()) -> list[Deviation]:
    """Return the mistakes in a number, except those with a code in ``but``. Local.

    words: the number's name.  concerns(case): see ``Deviation``.
    """
    return [Deviation(f"{decision.replace(' ', '-')}-{code}", wrong.format(words), {
        decision: lambda right, m, p, change=change: change(np.asarray(right, np.float64)[()], m.case.ranks)},
        concerns, paired=False) for code, wrong, change in NUMBERS if code not in but]


COUNTS = (
    ("stopped", "{} stays where it begins", lambda k, m, p: 0, ()),
    ("early", "{} is one too large", lambda k, m, p: k + 1, ()),
    ("late", "{} is one too small from the second update on", lambda k, m, p: max(0, k - 1), ()),
    ("per-variable", "{} advances with every variable, not with every update",
     lambda k, m, p: k * len(m.case.variables) + m.case.variables.index(p.variable), ()),
    ("per-micro-step", "{} advances with every micro-step, not with every update",
     lambda k, m, p: sum(map(len, m.windows[:k])), ("window",)),
    ("advanced-twice", "{} counts each update twice", lambda k, m, p: 2 * k, ()),
    ("backwards", "{} falls with each update", lambda k, m, p: -k, ()),
    *((code, "{} " + words + " after resuming",
       lambda k, m, p, anew=anew: k if k < m.task.resume_after else k + anew(m.task.resume_after),
       ("resume_after",)) for code, words, anew in (
        ("restarted", "starts anew", lambda r: -r), ("ahead", "is one too large", lambda r: 1),
        ("behind", "is one too small", lambda r: -1), ("twice", "is twice what it was", lambda r: r))),
)
"""(code, words, change(updates done, machine, place), settings that a case needs to show it)."""
BY_T = ("adam", "adamw", "dampened")
"""Optimizers whose formula has the number of the update."""


def _by_clock(case) -> bool:
    return case.settings["task"]["optimizer"] in BY_T


COUNTED = (("clock", "the optimizer's step counter", _by_clock, ("clock",)),
           ("rate", "the number of updates by which the learning rate falls", has("rate_factor"), ("ticks",)),
           ("count", "the number of updates", lambda case: _by_clock(case) or has("rate_factor")(case),
            ("clock", "ticks")))
"""(code, words, whether a case shows it, its decisions)."""


def wrong_counts() -> list[Deviation]:
    """Return the mistakes in the count of updates: of the optimizer, of the rate, or of both. Local."""
    return [Deviation(f"{of}-{code}", wrong.format(words), dict.fromkeys(decisions, change),
                      lambda case, shows=shows, needs=needs: shows(case) and has(*needs)(case))
            for of, words, shows, decisions in COUNTED for code, wrong, change, needs in COUNTS
            if (of, code) != ("clock", "backwards")]  # an optimizer cannot begin with update 0


def miscounts(what: str, count: int):
    """Yield (words, the numbers it needs, change of a list of numbers), where one or two are miscounted. Local."""
    for r in range(count):
        yield f"{what} {r} was never counted", (r,), lambda given, r=r: [q for q in given if q != r]
        yield f"{what} {r} was counted twice", (r,), lambda given, r=r: [*given, r]
        for q in set(range(count)) - {r}:
            yield (f"{what} {r} was counted twice; {what} {q} was never counted", (r, q),
                   lambda given, r=r, q=q: [r if k == q else k for k in given])


OTHER = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.Pow: ast.Mult}
"""Operator -> the wrong one."""


def wrong_lines(kind: type, method: str, others=()):
    """Yield (words, function with one mistake that replaces a method). The method only returns an expression. Local.

    others: attributes of the object that may be taken by mistake, apart from those in the line.

    The mistakes: an operand, a root, a power or a condition is left out. Operands or arguments are swapped. Another
    operator, argument or number is used. A constant is one too large or too small. A number is squared, or subtracted
    from 1. The result is one argument alone, or 0.
    """
    tree = ast.parse(dedent(inspect.getsource(getattr(kind, method)))).body[0]
    names, line = [a.arg for a in tree.args.args], tree.body[-1].value
    own = [node for node in ast.walk(line) if isinstance(node, ast.Attribute) and ast.unparse(node.value) in names]
    objects = {names[0], *(ast.unparse(node.value) for node in own)}
    arguments = [name for name in names if name not in objects]
    numbers = [*map(ast.unparse, own), *(f"self.{name}" for name in others)]
    right, found = ast.unparse(line), {}
    for place, node in enumerate(ast.walk(line)):
        for other in _instead(node, (arguments, numbers)):
            found.setdefault(ast.unparse(_with(line, place, other)))
    for one, other in combinations(arguments, 2):
        found.setdefault(re.sub(rf"\b({one}|{other})\b", lambda name: other if name[0] == one else one, right))
    if not isinstance(line, ast.Tuple):
        found |= dict.fromkeys([*arguments, f"0 * ({right})"])
    for wrong in found:
        if wrong != right:
            yield (f"{method} is `{wrong}`, not `{right}`",
                   eval(f"lambda {', '.join(names)}: {wrong}", vars(sys.modules[kind.__module__])))


def _instead(node, neighbours):
    """Yield the wrong expressions that may replace a part of an expression."""
    if isinstance(node, ast.BinOp):
        yield from (node.left,) if isinstance(node.op, (ast.Div, ast.Pow)) else (node.left, node.right)
        if type(node.op) in OTHER:
            yield ast.BinOp(node.left, OTHER[type(node.op)](), node.right)
        if isinstance(node.op, (ast.Sub, ast.Div, ast.Pow)):
            yield ast.BinOp(node.right, node.op, node.left)
    elif isinstance(node, ast.Call):
        yield from node.args
    elif isinstance(node, ast.IfExp):
        yield from (node.body, node.orelse, ast.IfExp(node.test, node.orelse, node.body))
    elif isinstance(node, ast.Constant):
        yield from (ast.Constant(node.value + 1), ast.Constant(node.value - 1))
    for alike in neighbours:
        if ast.unparse(node) in alike:
            yield from (ast.parse(name, mode="eval").body for name in alike)
            yield ast.BinOp(node, ast.Mult(), node)
            yield ast.BinOp(ast.Constant(1), ast.Sub(), node)


def _with(line, place: int, other):
    """Return an expression in which one node is replaced. place: its number in ``ast.walk``."""
    line = ast.Expression(deepcopy(line))
    found = list(ast.walk(line.body))[place]

    class Put(ast.NodeTransformer):
        def visit(self, node):
            return other if node is found else self.generic_visit(node)

    return Put().visit(line).body
