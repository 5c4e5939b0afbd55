"""The comparison works in another framework's environment: beside packages called models and kernels."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NEED_MORE = {
    "adapters": ("jax_models", "jax_optax", "jax_traces", "ours", "ours_mesh", "ours_owner", "ours_training", "torch_ddp",
                 "torch_given", "torch_models", "torch_traces", "torchrec_tables"),
    "report": ("terminal",),  # rich
    "traces": ("record",),  # what makes golden traces, not what compares with them
}
"""Modules of the package that run an implementation, or print; nothing else may import them."""
ALONE = f"NEED_MORE = {NEED_MORE}" + """
import pkgutil, importlib, sys
import refimpl.conformance
for module in pkgutil.walk_packages(refimpl.conformance.__path__, "refimpl.conformance."):
    home, name, *_ = [*module.name.split(".")[2:], ""]
    if name not in NEED_MORE.get(home, ()):
        importlib.import_module(module.name)
import refimpl.conformance.cases as cases
assert len(cases.all_cases(4)) > 50
print([m for m in sys.modules if m.split(".")[0] in ("models", "kernels", "numba", "mpi4py", "rich")])
"""


@pytest.fixture
def foreign(tmp_path):
    """An environment in which the names of our packages, and of what they need, belong to others."""
    for name in ("models", "kernels", "numba", "mpi4py", "rich"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text(f"raise ImportError('this {name} is another one')")
    return {**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}"}


def run(arguments, environment, cwd):
    return subprocess.run([sys.executable, *arguments], env=environment, cwd=cwd, capture_output=True, text=True,
                          timeout=120)


def test_nothing_of_ours_is_imported(foreign, tmp_path):
    job = run(["-c", ALONE], foreign, tmp_path)
    assert job.returncode == 0, job.stderr
    assert job.stdout.strip() == "[]"


def test_the_check_sees_an_import(foreign, tmp_path):
    job = run(["-c", "import models"], foreign, tmp_path)
    assert job.returncode and "this models is another one" in job.stderr


def test_the_report_is_readable_without_rich(foreign, tmp_path):
    (tmp_path / "summing.py").write_text(
        "from refimpl.conformance.adapters import reference\nLAUNCHER = 'local'\n"
        "class Sums(reference.Reference):\n    def over(self, array, divisor):\n        return array\n"
        "for_world = Sums\n")
    job = run(["-m", "refimpl", "conformance", "run", "--target", "summing", "--ranks", "2", "--only", "dense/prov"],
              foreign, tmp_path)
    assert job.returncode == 1, job.stderr
    for words in ("dense/provenance (aggregate) failed: bias[0] is", "    weight[0, 0] is",
                  "match another rule: dense gradients are summed over the ranks", "0 passed, 1 failed"):
        assert words in job.stdout


def test_the_suite_runs_under_pytest_there(foreign, tmp_path):
    environment = {**foreign, "REFIMPL_TARGET": "refimpl.conformance.adapters.reference", "REFIMPL_RANKS": "1 2"}
    job = run(["-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:mpi", "-p", "no:pytest_mpi", "-c", os.devnull,
               "--rootdir", str(tmp_path), "--pyargs", "refimpl.conformance.suite"], environment, tmp_path)
    assert job.returncode == 0, job.stdout + job.stderr
    assert " passed" in job.stdout and "failed" not in job.stdout
