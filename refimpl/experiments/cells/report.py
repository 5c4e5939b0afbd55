"""Experiments, their findings, and the report: tables, sentences and pictures of all findings in one Markdown file.

Each finding's section is kept in a file. If a study is not run, the report has its section from an earlier run, with
the day and the version of the code.
"""

from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Callable

from refimpl.experiments.cells.cell import code_version
from refimpl.pictures.picture import Picture

WORDS = ("model", "architecture", "ratio", "straggler", "consistency", "network", "layer", "mesh", "size", "codec",
         "rule")
"""Columns of words. All others are numbers, which are right-aligned."""


@dataclass(frozen=True)
class Table:
    """A titled table of strings."""

    title: str
    columns: list[str]
    rows: list[list[str]]


@dataclass(frozen=True)
class Finding:
    """A result of an experiment. sentences: of the report.  pictures: file's name -> picture."""

    title: str
    tables: list[Table]
    sentences: list[str] = field(default_factory=list)
    pictures: dict[str, Picture] = field(default_factory=dict)


def bytes_of(count: float) -> str:
    """Return bytes as text, in MB."""
    return f"{count / 1e6:.2f} MB"


@dataclass(frozen=True)
class Experiment:
    """An experiment and the directory of its report.

    studies: part of the report -> its study, in the report's order.  head: the text before the findings.  foot: returns
    the text after them.  failed: a line for each failed cell.
    """

    directory: Path
    studies: dict[str, Callable[[], Finding]]
    head: str
    foot: Callable[[], str] = str
    failed: list[str] = field(default_factory=list)

    def run(self, names=(), quick: bool = False) -> tuple[Path, list[Finding]]:
        """Run the named studies, by default all; return (report, findings). Local: the parent of all jobs.

        The report is written again after each study, so that an interrupted run has a report, too.
        """
        made = f"*Written {date.today().isoformat()} by code {code_version()}."
        made += " --quick: small clusters and few steps, good for a look, not for conclusions.*\n" if quick else "*\n"
        path, findings = self.directory / "report.md", []
        files = {name: self.directory / f"section-{name}.md" for name in self.studies}
        for name in names or self.studies:
            findings.append(self.studies[name]())
            files[name].write_text(f"{section(findings[-1], self.directory)}\n{made}", encoding="utf-8")
            parts = [self.head, *(file.read_text(encoding="utf-8") for file in files.values() if file.exists())]
            if foot := self.foot():
                parts.append(foot)
            if self.failed:
                parts.append("## Cells that failed\n\n" + "\n".join(f"- {line}" for line in self.failed) + "\n")
            path.write_text("\n".join(parts), encoding="utf-8")
        return path, findings


def opened(output) -> Path:
    """Make a directory for output, and return it. Local. Raises ValueError if it cannot be made."""
    directory = Path(output)
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise ValueError(f"--output {output}: cannot make this directory: {problem.strerror}") from problem
    return directory


def section(finding: Finding, directory: Path) -> str:
    """Return a finding's part of the report; write its pictures into the directory. Local."""
    parts = [f"## {finding.title}\n", *(markdown(table) for table in finding.tables)]
    parts += [f"{sentence}\n" for sentence in finding.sentences]
    parts += [f"![{picture.alt}]({picture.save(directory / f'{name}.svg').name})\n"
              for name, picture in finding.pictures.items()]
    return "\n".join(parts)


def markdown(table: Table) -> str:
    """Return a table as Markdown, with numbers right-aligned."""
    rule = ["---" if column in WORDS else "---:" for column in table.columns]
    lines = [f"**{table.title}**", "", *(f"| {' | '.join(row)} |" for row in (table.columns, rule, *table.rows))]
    return "\n".join(lines) + "\n"
