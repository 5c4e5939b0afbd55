"""Frameworks are optional: who asks for one that is not there is told what to do."""

import importlib


def require_installed(package: str, called: str):
    """Raise ModuleNotFoundError, with what to install, if a framework is missing. Local.

    package: what is imported, and the name of the extra.  called: as people call it.
    """
    try:
        importlib.import_module(package)
    except ModuleNotFoundError as problem:
        if problem.name != package:
            raise
        raise ModuleNotFoundError(f"refimpl.{package} needs {called}, which is not installed: pip install -e "
                                  f"'.[{package}]', or pip install {package}", name=package) from problem
