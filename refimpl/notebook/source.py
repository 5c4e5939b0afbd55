"""A module's whole source as the output of a cell: a lesson shows the plain version of its topic."""

import importlib.util
from pathlib import Path

ROOT = Path(__file__).parents[2]


class Source:
    """The text of a file, which Jupyter shows in colours below a link to it."""

    def __init__(self, path: Path):
        self.path = path.relative_to(ROOT).as_posix()
        self.text = path.read_text("utf-8")

    def _repr_mimebundle_(self, include=None, exclude=None):
        return {"text/markdown": f"[`{self.path}`](../{self.path})\n\n```python\n{self.text}```\n",
                "text/plain": self.text}


def show_source(module: str) -> Source:
    """Return the source of a module, for the last line of a cell: show_source("refimpl.plain.collectives.ring"). Local.

    Raises ValueError for a name that is not a module of this repository.
    """
    try:
        found = importlib.util.find_spec(module)
    except ModuleNotFoundError:
        found = None
    if found is None or not found.origin or not Path(found.origin).is_relative_to(ROOT):
        raise ValueError(f"{module!r} is no module of this repository; one is refimpl.plain.collectives.ring")
    return Source(Path(found.origin))
