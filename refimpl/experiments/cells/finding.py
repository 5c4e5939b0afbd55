"""What an experiment hands back: tables, sentences, curves and pictures."""

from dataclasses import dataclass, field

from refimpl.pictures.picture import Picture


@dataclass(frozen=True)
class Table:
    """A titled table of strings."""

    title: str
    columns: list[str]
    rows: list[list[str]]


@dataclass(frozen=True)
class Finding:
    """What an experiment found. sentences: of the report.  curves: (title, x, y, {line: [(x, y)]}), a plot each.

    pictures: file's name -> picture.
    """

    name: str
    title: str
    tables: list[Table]
    sentences: list[str] = field(default_factory=list)
    curves: list = field(default_factory=list)
    pictures: dict[str, Picture] = field(default_factory=dict)


def bytes_of(count: float) -> str:
    """Return bytes as people read them."""
    return f"{count / 1e6:.2f} MB"
