"""A bug as data: what is wrong, the diagnoses that name it, and the reference adapter in which it is planted."""

from dataclasses import dataclass, replace
from functools import partial

from refimpl.conformance.adapters.reference import EVERYTHING, Reference


@dataclass(frozen=True)
class Mutant:
    """bug: its number in the list of classic bugs.  codes: of diagnoses that name it.  make: the adapter's class.

    kind: of the only cases that it can change: owner, mesh or codec; "": any but these.
    """

    bug: int
    words: str
    codes: tuple[str, ...]
    make: type
    kind: str = ""


def planted(**methods) -> type:
    """Return the reference adapter with other methods, see ``with_methods``."""
    return with_methods(Reference, methods)


def with_methods(kind: type, methods: dict) -> type:
    """Return a class with other methods: each is wrong(self, right, *arguments), right the one it had."""
    def method(right, wrong):
        return lambda self, *given, **named: wrong(self, partial(right, self), *given, **named)

    return type("Planted", (kind,), {name: method(getattr(kind, name), wrong) for name, wrong in methods.items()})


def undeclared(**rules) -> type:
    """Return the adapter that follows other rules than its manifest declares. rules: field -> value of a manifest."""
    return type("Undeclared", (Reference,), {
        "__init__": lambda self, world: Reference.__init__(self, world, replace(EVERYTHING, **rules)),
        "describe": lambda self: EVERYTHING})
