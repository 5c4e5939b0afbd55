"""docs/guide.md: its adapter, its commands and what they print, as written."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")
ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "guide.md").read_text()
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
ADAPTER, MEANING = (text for language, text in BLOCKS if language)
INSTALL, *FENCED = [text for language, text in BLOCKS if not language]
COMMANDS = [line for block in FENCED for line in block.replace("\\\n", "").splitlines()
            if line.startswith(("python", "PYTHONPATH"))]


@pytest.fixture
def run(tmp_path):
    """Run a command of the page in a folder of its own, the package's data beside it; return (status, output)."""
    (tmp_path / "tests").symlink_to(ROOT / "tests")

    def run_(command):
        words = shlex.split(command)
        given = dict(word.split("=", 1) for word in words if re.match(r"[A-Z_]+=", word))
        words = words[len(given):]
        environment = {**os.environ, **given, "COLUMNS": "1000",
                       "PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}"}
        start = {"python": [sys.executable], "pytest": [sys.executable, "-m", "pytest", "-p", "no:cacheprovider"]}
        job = subprocess.run(start[words[0]] + words[1:], cwd=tmp_path, env=environment, capture_output=True, text=True,
                             timeout=250)
        return job.returncode, job.stdout + job.stderr

    return run_


def test_there_are_six_commands():
    assert len(COMMANDS) == 6


def test_what_is_installed_is_what_the_first_command_clones():
    (_, folder), (_, package) = (re.match(r"(git clone REPOSITORY|pip install) (\S+)", line).groups()
                                 for line in INSTALL.splitlines())
    assert package == f"./{folder}"


def test_the_page_says_what_the_report_says():
    told, said = (set(re.findall(r"(untouched|sparse)\W+(?:=\s*)?\"?(\w[\w-]*)\"?", text))
                  for text in (re.search(r"\(untouched=.*?\)", FENCED[1])[0], MEANING))
    assert told == said == {("untouched", "decayed"), ("sparse", "average")}


@pytest.mark.thorough
def test_the_wrong_manifest_is_told_in_these_words(run, tmp_path):
    (tmp_path / "my_torch.py").write_text(ADAPTER)
    status, output = run(COMMANDS[0])
    assert status == 1
    assert " ".join(FENCED[1].split()) in " ".join(output.split()), output


@pytest.mark.thorough
def test_the_right_manifest_passes(run, tmp_path):
    start = ADAPTER.index("def describe")
    end = ADAPTER.index("\n\n", start)
    (tmp_path / "my_torch.py").write_text(ADAPTER[:start] + MEANING.rstrip() + ADAPTER[end:])
    status, output = run(COMMANDS[1])
    assert status == 0, output
    assert "34 passed, 0 failed, 76 skipped" in output and (tmp_path / "report.html").exists()
    status, output = run(COMMANDS[2])
    assert status == 0 and " passed" in output, output


@pytest.mark.thorough
def test_expected_failures(run):
    status, output = run(COMMANDS[3])
    assert status == 0 and "0 of them unexpected" in output, output


@pytest.mark.thorough
def test_a_whole_training(run, tmp_path):
    for command in COMMANDS[4:]:
        status, output = run(command)
        assert status == 0, output
    assert "0 failed" in output
