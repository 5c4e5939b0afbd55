"""Mistakes in one line of a formula, made from the line itself: what it returns is a little different."""

import ast
import inspect
import sys
from copy import deepcopy
from textwrap import dedent

OTHER = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.Pow: ast.Mult}
"""What is written in place of an operator."""


def wrong_lines(kind: type, method: str, others=()):
    """Yield (words, function in place of a method, which only returns an expression), each with one mistake. Local.

    others: numbers of an object of the class, beside those that the line has.

    The mistakes: an operand, a root, a power or a condition is left out; operands are swapped; another operator,
    argument or number is taken; a constant is one too large or too small; a number is taken twice, or 1 minus it; or
    all is one argument, or 0.
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
    if not isinstance(line, ast.Tuple):
        found |= dict.fromkeys([*arguments, f"0 * ({right})"])
    for wrong in found:
        if wrong != right:
            yield (f"{method} is `{wrong}`, not `{right}`",
                   eval(f"lambda {', '.join(names)}: {wrong}", vars(sys.modules[kind.__module__])))


def _instead(node, neighbours):
    """Yield what may be written in place of a part of an expression."""
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
    """Return an expression with another node in the place of one, as ``ast.walk`` counts them."""
    line = ast.Expression(deepcopy(line))
    found = list(ast.walk(line.body))[place]

    class Put(ast.NodeTransformer):
        def visit(self, node):
            return other if node is found else self.generic_visit(node)

    return Put().visit(line).body
