"""The README's own model runs as printed, and has the same hash on any number of ranks and from the command line."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from refimpl.transport.launch import launch

README = Path(__file__).parents[1] / "README.md"


@pytest.mark.thorough
def test_the_readmes_own_model(tmp_path, monkeypatch):
    (program,) = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
    assert len(program.strip().splitlines()) <= 35
    script = tmp_path / "ratings.py"
    script.write_text(program)
    alone = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=120)
    assert alone.returncode == 0, alone.stderr
    loss, digest = alone.stdout.split()
    assert float(loss) < 1.0 and len(digest) == 64  # the ratings' variance is 2
    job = launch(3, [str(script)], timeout=120, capture=True)
    assert job.returncode == 0 and job.stdout == alone.stdout, job.stderr
    (command,) = re.findall(r"python (-m refimpl train --model .*?)\n```", README.read_text(), re.DOTALL)
    monkeypatch.chdir(tmp_path)
    job = launch(3, [*command.replace("\\", "").split(), "--no-output", "--json"], timeout=120, capture=True)
    assert job.returncode == 0 and json.loads(job.stdout)["parameters_sha256"] == digest, job.stderr


def test_files_that_the_readme_names_exist():
    for link in re.findall(r"\]\(([^)#:]+)\)", README.read_text()):
        assert (README.parent / link).exists(), link
