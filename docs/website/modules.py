"""What Python files define, by reading them: nothing is imported or run, so no MPI and no GPU is needed."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from docs.website.links import PACKAGES, dotted

LONG_SIGNATURE = 100


@dataclass(frozen=True)
class Entry:
    """One public name of a module: class, function, method, or constant with a docstring.

    name: "Class.method" for a method.  parameters: names that the docstring may explain, fields and attributes too.
    """

    name: str
    kind: str
    signature: str
    docstring: str
    line: int
    parameters: frozenset[str] = frozenset()
    members: tuple["Entry", ...] = ()
    bases: tuple[str, ...] = ()


@dataclass(frozen=True)
class Module:
    """One file, or a folder without __init__.py.  handed_on: names that it takes from others -> their dotted home."""

    path: str
    name: str
    is_package: bool
    docstring: str
    source: str
    entries: tuple[Entry, ...] = ()
    handed_on: dict[str, str] = field(default_factory=dict)

    @property
    def summary(self) -> str:
        """The first sentence of the docstring, or its first line."""
        return self.docstring.split("\n\n")[0].split("\n    ")[0].replace("\n", " ")

    @property
    def parent(self) -> str:
        return self.name.rpartition(".")[0]


def read_modules(root: Path) -> dict[str, Module]:
    """Return every module below PACKAGES by its dotted name; a folder without __init__.py is an empty package.

    Raises SyntaxError, naming the file.
    """
    modules = {}
    for package in PACKAGES:
        for file in sorted((root / package).rglob("*.py")):
            path = file.relative_to(root).as_posix()
            modules[dotted(path)] = read_module(path, file.read_text("utf-8"))
    for name in list(modules):
        while name := name.rpartition(".")[0]:
            modules.setdefault(name, Module(name.replace(".", "/"), name, True, "", ""))
    return dict(sorted(modules.items()))


def read_module(path: str, source: str) -> Module:
    """Return what the file at ``path`` (relative to the repository) defines."""
    tree = ast.parse(source, path)
    name, is_package = dotted(path), path.endswith("/__init__.py")
    entries = () if name.split(".")[0] == "tests" else tuple(_entries(tree.body, source))
    return Module(path, name, is_package, ast.get_docstring(tree) or "", source, entries, _handed_on(tree, name))


def _entries(body: list[ast.stmt], source: str, owner: str = "") -> Iterator[Entry]:
    """Yield the public names that statements define, in their order."""
    for node, following in zip(body, [*body[1:], None]):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and not node.name.startswith("_"):
            yield _function(node, owner)
        elif isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            yield _class(node, source)
        elif isinstance(node, (ast.Assign, ast.AnnAssign)) and _is_string(following):
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            if isinstance(target, ast.Name) and not target.id.startswith("_"):
                value = ast.get_source_segment(source, node.value) if node.value else ""
                short = f"{target.id} = {value}" if value and len(value) <= 100 and "\n" not in value else target.id
                yield Entry(owner + target.id, "value", short, ast.get_docstring(ast.Module([following], [])),
                            node.lineno)


def _function(node, owner: str) -> Entry:
    decorators = {ast.unparse(decorator) for decorator in node.decorator_list}
    arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs, node.args.vararg, node.args.kwarg]
    names = frozenset(argument.arg for argument in arguments if argument)
    if decorators & {"property", "cached_property", "functools.cached_property"}:
        kind, signature = "property", node.name + _returns(node)
    else:
        if owner and "staticmethod" not in decorators:
            _drop_first(node.args)
        kind = "method" if owner else "function"
        signature = laid_out(node.name, _arguments(node.args), _returns(node))
    return Entry(owner + node.name, kind, signature, ast.get_docstring(node) or "", node.lineno, names)


def laid_out(name: str, arguments: list[str], returns: str = "") -> str:
    """Return a signature on one line, or, where that is too long to take in at a glance, an argument a line."""
    line = f"{name}({', '.join(arguments)}){returns}"
    if len(line) <= LONG_SIGNATURE:
        return line
    return f"{name}(\n" + "".join(f"    {argument},\n" for argument in arguments) + f"){returns}"


def _arguments(arguments: ast.arguments) -> list[str]:
    """Return the arguments of a function one by one, as they are written: with the signs / and * between them."""
    places = [*arguments.posonlyargs, *arguments.args]
    defaults = [None] * (len(places) - len(arguments.defaults)) + arguments.defaults
    listed = [_argument(*pair) for pair in zip(places, defaults)]
    if arguments.posonlyargs:
        listed.insert(len(arguments.posonlyargs), "/")
    if arguments.vararg:
        listed.append(f"*{_argument(arguments.vararg, None)}")
    elif arguments.kwonlyargs:
        listed.append("*")
    listed += [_argument(*pair) for pair in zip(arguments.kwonlyargs, arguments.kw_defaults)]
    return listed + ([f"**{_argument(arguments.kwarg, None)}"] if arguments.kwarg else [])


def _argument(argument: ast.arg, default) -> str:
    if default is None:
        return ast.unparse(argument)
    return f"{ast.unparse(argument)}{' = ' if argument.annotation else '='}{ast.unparse(default)}"


def _returns(node) -> str:
    return " -> " + ast.unparse(node.returns).strip("'\"") if node.returns else ""


def _drop_first(arguments: ast.arguments) -> None:
    """Leave out self: a reader of the documentation does not pass it."""
    for group in (arguments.posonlyargs, arguments.args):
        if group:
            del group[0]
            return


def _class(node: ast.ClassDef, source: str) -> Entry:
    members = tuple(_entries(node.body, source, f"{node.name}."))
    made_by = [item for item in node.body if isinstance(item, ast.FunctionDef) and item.name == "__init__"]
    fields = [item for item in node.body if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name)]
    bases = tuple(ast.unparse(base) for base in node.bases)
    is_record = any("dataclass" in ast.unparse(d) for d in node.decorator_list) or "NamedTuple" in bases
    if made_by:
        made = _function(made_by[0], f"{node.name}.")
        arguments = _arguments(made_by[0].args)
        signature, names = laid_out(node.name, arguments), made.parameters
    elif is_record:
        arguments = [ast.unparse(item) for item in fields if not _is_class_variable(item)]
        signature, names = laid_out(node.name, arguments), frozenset()
    else:
        signature, names = node.name, frozenset()
    names |= {item.target.id for item in fields} | {member.name.partition(".")[2] for member in members}
    names |= {target.attr for target in ast.walk(node) if isinstance(target, ast.Attribute)
              and isinstance(target.value, ast.Name) and target.value.id == "self"}
    return Entry(node.name, "class", signature, ast.get_docstring(node) or "", node.lineno, names, members, bases)


def _is_class_variable(item: ast.AnnAssign) -> bool:
    return "ClassVar" in ast.unparse(item.annotation)


def _is_string(node) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def _handed_on(tree: ast.Module, module: str) -> dict[str, str]:
    """Return the names that a file imports from others: name -> dotted home."""
    homes = {}
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            homes |= {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id == "_HOME":
            homes |= {name: f"{home}.{name}" for name, home in ast.literal_eval(node.value).items()}
    return homes
