"""The first pages' programs run as printed, with the hash that they promise; their picture is what plans say."""

import importlib.util
import json
import os
import re
import subprocess
import sys
from html import escape
from pathlib import Path

import numpy as np
import pytest

from refimpl.transport.launch import launch

ROOT = Path(__file__).parents[1]
RATINGS = ROOT / "docs" / "examples" / "ratings.py"
README, OWN_MODEL, PICTURE = ROOT / "README.md", ROOT / "docs" / "own-model.md", ROOT / "docs" / "step-bytes.svg"
PROGRAM = re.compile(r"```python\n(.*?)```", re.DOTALL)


@pytest.mark.thorough
def test_the_hybrid_in_30_lines(tmp_path):
    (program,) = PROGRAM.findall(README.read_text())
    assert len([line for line in program.splitlines() if line.strip()]) <= 30
    script = tmp_path / "hybrid.py"
    script.write_text(program)
    plain = launch(3, [str(script)], timeout=240, capture=True)
    assert plain.returncode == 0, plain.stderr
    fast = launch(2, "-m refimpl train lm --steps 20 --no-output --json".split(), timeout=240, capture=True)
    digest = json.loads(fast.stdout)["parameters_sha256"]
    assert plain.stdout.splitlines() == [f"rank {rank}: {digest}" for rank in range(3)]


def test_the_first_commands_are_those_of_a_fresh_clone(tmp_path):
    (block,) = re.findall(r"```\n(git clone .*?)```", README.read_text(), re.DOTALL)
    clone, enter, *makes = block.splitlines()
    assert enter.startswith("cd ") and len(makes) == 2 and all(line.startswith("make ") for line in makes)
    dry = [line.replace("make ", "make --dry-run ", 1) for line in makes]  # what they do takes minutes
    shown = subprocess.run(["bash", "-ec", "\n".join([clone.replace("REPOSITORY", str(ROOT)), enter, *dry])],
                           cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert shown.returncode == 0, shown.stderr
    assert "refimpl compare lm --ranks 4" in shown.stdout and "torch==" in shown.stdout and "[jax,flax,equinox]" in shown.stdout


@pytest.fixture(scope="module")
def example():
    """The script that draws README's picture."""
    spec = importlib.util.spec_from_file_location("step_bytes", ROOT / "docs" / "examples" / "step_bytes.py")
    spec.loader.exec_module(module := importlib.util.module_from_spec(spec))
    return module


@pytest.mark.thorough
def test_most_machines_do_not_read_a_row_in_the_next_step(example):
    recipe, _ = example.recipe_of("lm", example.MODEL)
    sample = example.take_sample(*example.build(recipe, 0)[:2], 0, 2)
    for name in sample.rows:
        before, after = (sample.pulled(step, name, 8) for step in (0, 1))
        assert np.mean([np.isin(rows, read).mean() for rows in before for read in after]) < 0.3, name


@pytest.mark.thorough
def test_the_first_picture_and_table_are_what_plans_say(example):
    picture = example.draw()
    assert f"<title>{escape(picture.alt)}</title>" in PICTURE.read_text(), f"draw it again: {example.__doc__}"
    megabytes = dict(re.findall(r"(\w+) ([\d.]+) MB \(", picture.alt))
    rows = re.findall(r"^\| `(\w+)`: .*? \| .*? \| ([\d.]+) \|", README.read_text(), re.MULTILINE)
    assert rows == list(megabytes.items())


@pytest.mark.thorough
def test_the_model_of_your_own(tmp_path, monkeypatch):
    (program,) = PROGRAM.findall(OWN_MODEL.read_text())
    assert len(program.strip().splitlines()) <= 35 and program == RATINGS.read_text()
    script = tmp_path / "ratings.py"
    script.write_text(program)
    alone = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=120)
    assert alone.returncode == 0, alone.stderr
    loss, digest = alone.stdout.split()
    assert float(loss) < 1.0 and len(digest) == 64  # the ratings' variance is 2
    job = launch(3, [str(script)], timeout=120, capture=True)
    assert job.returncode == 0 and job.stdout == alone.stdout, job.stderr
    (command,) = re.findall(r"python (-m refimpl train --model .*?)\n```", OWN_MODEL.read_text(), re.DOTALL)
    monkeypatch.chdir(tmp_path)
    job = launch(3, [*command.replace("\\", "").split(), "--no-output", "--json"], timeout=120, capture=True)
    assert job.returncode == 0 and json.loads(job.stdout)["parameters_sha256"] == digest, job.stderr


def test_the_own_model_of_the_readme_trains():
    (line,) = (line for line in README.read_text().splitlines() if "--model ratings:Ratings" in line)
    (folder, command), = re.findall(r"^PYTHONPATH=(\S+) mpirun -n 4 python (-m .*?)  #", line)
    job = launch(2, [*command.split(), "--steps", "1", "--no-output", "--json"], timeout=120, capture=True,
                 environment={"PYTHONPATH": os.pathsep.join([str(ROOT / folder), str(ROOT)])})
    assert job.returncode == 0 and json.loads(job.stdout)["steps"] == 1, job.stderr
