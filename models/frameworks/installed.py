"""Frameworks are optional. A missing one gives an error that says what to install."""

import importlib


def require_installed(package: str, called: str):
    """Raise ModuleNotFoundError, which says what to install, if a framework is missing. Local.

    package: the module's name, which is also the name of the extra.  called: the framework's usual name.
    """
    try:
        importlib.import_module(package)
    except ModuleNotFoundError as problem:
        if problem.name != package:
            raise
        raise ModuleNotFoundError(f"refimpl.{package} needs {called}, which is not installed: pip install -e "
                                  f"'.[{package}]', or pip install {package}", name=package) from problem
