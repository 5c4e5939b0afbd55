"""The tests on a GPU skip what asks for NCCL where its version cannot serve, and nothing because NCCL failed."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
ASKS = """
def test_that_nccl_serves():
    raise ValueError("--transport nccl: unhandled system error")

def test_of_something_else():
    pass
"""


def outcome(folder, version: int) -> str:
    """Return what pytest says of ASKS on a GPU with an NCCL of this version."""
    shutil.copy(TESTS / "conftest.py", folder)
    (folder / "test_asks.py").write_text(f"from cupy.cuda import nccl\nnccl.get_version = lambda: {version}\n{ASKS}")
    paths = os.pathsep.join(map(str, (TESTS.parent, TESTS / "device" / "standin")))
    job = subprocess.run(
        [sys.executable, "-c", f"import conftest, pytest, sys; conftest._ranks = lambda config: 2; "
         f"sys.exit(pytest.main(['-q', '-p', 'no:cacheprovider', '-p', 'conftest', '--noconftest', {str(folder)!r}]))"],
        env={**os.environ, "PYTHONPATH": f"{folder}{os.pathsep}{paths}", "REFIMPL_TEST_DEVICE": "cuda"}, cwd=folder,
        capture_output=True, text=True)
    return job.stdout + job.stderr


@pytest.mark.parametrize("version, said", [(23000, "1 failed, 1 passed"), (22000, "1 passed, 1 skipped")])
def test_a_failure_of_nccl_is_a_failure(tmp_path, version, said):
    assert said in outcome(tmp_path, version)
