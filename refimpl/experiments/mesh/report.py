"""All parts, one after the other; each part's section is kept, so that the report has those of earlier runs, too."""

import importlib
from datetime import date
from pathlib import Path

from refimpl.experiments.mesh import PARTS
from refimpl.experiments.parallax.cells.cell import code_version
from refimpl.experiments.parallax.report import section
from refimpl.experiments.parallax.study import Finding

HEAD = """# Hybrid data and model parallelism

Convolutional layers have little to send and much to compute, fully connected ones the reverse. Here a mesh of DATA x
MODEL ranks is held against what SplitBrain (arXiv 2112.15317) and Das et al. (arXiv 1602.06709) report.
"""


def run_parts(output, names, quick: bool = False) -> tuple[Path, list[Finding]]:
    """Run the named parts, write the report after each; return (report, findings). Local.

    Raises ValueError for a directory that cannot be made, and what a part raises.
    """
    directory, findings = Path(output), []
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise ValueError(f"--output {output}: cannot make this directory: {problem.strerror}") from problem
    for name in names:
        findings.append(importlib.import_module(PARTS[name]).study(quick))
        report = write_report(directory, findings[-1], quick)
    return report, findings


def write_report(directory: Path, finding: Finding, quick: bool) -> Path:
    """Write a finding's section, and report.md of all sections that are there; return its path. Local."""
    made = f"*Written {date.today().isoformat()} by code {code_version()}{', --quick' if quick else ''}.*\n"
    _file(directory, finding.name).write_text(f"{section(finding, directory)}\n{made}", encoding="utf-8")
    kept = [path.read_text(encoding="utf-8") for name in PARTS if (path := _file(directory, name)).exists()]
    path = directory / "report.md"
    path.write_text("\n".join([HEAD, *kept]), encoding="utf-8")
    return path


def _file(directory, name) -> Path:
    return directory / f"section-{name}.md"
