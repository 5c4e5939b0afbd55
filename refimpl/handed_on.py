"""Names that a package hands on from the modules that define them, each loaded when it is first asked for."""

import importlib


def handed_on(package: str, home: dict[str, str]):
    """Return a package's ``__getattr__`` and ``__dir__``. home: name -> the module that defines it. Local."""

    def find(name):
        if name not in home:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(importlib.import_module(home[name]), name)

    def names():
        return sorted({*vars(importlib.import_module(package)), *home})

    return find, names
