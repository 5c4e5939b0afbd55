"""Frameworks are optional. A missing one gives an error that says what to install."""

import importlib


def require_installed(package: str, called: str, by: str = ""):
    """Raise ModuleNotFoundError, which says what to install, if a framework is missing. Local.

    package: the module's name, which is also the name of the extra.  called: the framework's usual name.
    by: what needs it; "": refimpl's package of the same name.
    """
    try:
        importlib.import_module(package)
    except ModuleNotFoundError as problem:
        if problem.name != package:
            raise
        by = by or f"refimpl.{package}"
        raise ModuleNotFoundError(f"{by} needs {called}, which is not installed: pip install -e '.[{package}]', or pip "
                                  f"install {package}", name=package) from problem
