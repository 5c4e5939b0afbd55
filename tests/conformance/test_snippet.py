"""Programs that show a failure without a name: they run, print what is wrong, and nothing of a right adapter."""

import json
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from refimpl.cli import main
from refimpl.conformance.adapters.reference import EVERYTHING, Reference
from refimpl.conformance.cases import all_cases, case_named
from refimpl.conformance.diagnose import Diagnosis
from refimpl.conformance.kinds import KINDS
from refimpl.conformance.report.snippet import literal, snippet
from refimpl.conformance.runner import Outcome
from refimpl.transport.launch import launch

GUIDE = (Path(__file__).parents[2] / "docs" / "conformance.md").read_text().split("```python\n")[1].split("```")[0]
ALL = [case for case in all_cases(2) if KINDS[case.kind].machine]
FIRST = {case.kind: case for case in ALL[::-1] if case.name != "codec/bf16"} | {"strided": case_named("dense/strided", 2)}


def off(answer):
    """Return an answer, or a list of answers, each of its float numbers 1 more; ids stay."""
    if isinstance(answer, dict):
        return {name: off(part) for name, part in answer.items()}
    if isinstance(answer, (list, tuple)):
        return tuple(map(off, answer)) if isinstance(answer, tuple) else [off(part) for part in answer]
    array = np.asarray(answer)
    return answer if array.dtype.kind in "biu" else array + array.dtype.type(1)


class Off(Reference):
    """Every number is 1 more than is right."""

    def __getattribute__(self, name):
        found = super().__getattribute__(name)
        asked = any(name == kind.functions[0] for kind in KINDS.values())
        return (lambda *arguments: off(found(*arguments))) if asked else found


def snippet_of(case, step=0, rank=1):
    """Return the program for the first variable of floats of a case, as if it had failed."""
    wanted = KINDS[case.kind].expect(case, EVERYTHING)
    name = next(name for name, want in wanted[step].items() if want.dtype.startswith("float")
                and rank in case.settings.get("holders", {}).get(name, [rank]))
    return snippet(Outcome("planted", 2, EVERYTHING, [], "local"),
                   Diagnosis("unexplained", "", shown_by=(case.name, step, name, rank)))


def printed(program, adapter, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "planted", SimpleNamespace(for_world=adapter))
    exec(compile(program, "snippet", "exec"), {})
    return capsys.readouterr().out


@pytest.mark.parametrize("case", FIRST.values(), ids=FIRST)
def test_each_function_is_called_as_the_suite_calls_it(case, monkeypatch, capsys):
    """A right adapter prints nothing, one that is off by 1 prints its numbers."""
    program = snippet_of(case)
    assert printed(program, Reference, monkeypatch, capsys) == ""
    lines = printed(program, Off, monkeypatch, capsys).splitlines()
    assert lines and all(re.fullmatch(r"rank 1: .*\[.*\] is .*, expected .*", line) for line in lines)


@pytest.mark.parametrize("array", [np.float32(0.1) * np.arange(6, dtype="float32").reshape(2, 3), np.zeros((0, 3)),
                                   np.array([np.inf, -0.0], "float16"), np.array(2**40), np.arange(5)[::-1],
                                   np.repeat(np.ones((2, 2, 1)), 2, 2)[..., 0]])
def test_an_array_as_text(array):
    found = eval(literal(array), {"np": np, "inf": np.inf})
    assert found.dtype == array.dtype and found.shape == array.shape and found.tobytes() == array.tobytes()
    assert found.flags.c_contiguous == array.flags.c_contiguous


@pytest.fixture
def written(adapter_module, tmp_path):
    """written(name, code) -> the path of a snippet for what is wrong in an adapter."""
    def write(name, code, *arguments):
        file = tmp_path / f"{name}_snippet.py"
        main(["conformance", "run", "--target", adapter_module(name, code), "--ranks", "2", "--snippet", str(file),
              *arguments])
        return file

    return write


LAST_COLUMN = """
from refimpl.conformance.adapters.reference import Reference
LAUNCHER = "local"
class for_world(Reference):
    def aggregate_dense(self, arrays):
        return {n: a * (1 + 2 * (np.arange(a.shape[-1]) == 4)) if a.ndim > 1 else a
                for n, a in super().aggregate_dense(arrays).items()}
import numpy as np
"""


def test_a_mistake_without_a_name_gets_a_program(written, tmp_path, capsys):
    page = tmp_path / "report.html"
    file = written("last_column", LAST_COLUMN.replace("a * (1", "a * a.dtype.type(1) * (1").replace(
        "== 4)", "== 4).astype(a.dtype)"), "--only", "dense/exact-float32", "--html", str(page), "--json")
    [found] = json.loads(capsys.readouterr().out)["outcomes"][0]["diagnoses"]
    said = subprocess.run([sys.executable, file], capture_output=True, text=True, check=True).stdout
    assert found["shown_by"][:3] == ["dense/exact-float32", 0, "weight"]
    assert re.search(r"weight\[0, 4\] is \S+, expected \S+", found["evidence"])[0] in said
    assert all(", 4] is " in line for line in said.splitlines()) and len(said.splitlines()) > 1
    assert "<details><summary>A program that shows it</summary><pre># dense/exact-float32: " in page.read_text()


def test_what_has_a_name_gets_none(written):
    code = LAST_COLUMN.replace("aggregate_dense(self, arrays):", "over(self, array, divisor):\n        return array\n"
                               "    def nothing(self, arrays):")
    assert written("sums", code, "--only", "dense/p").read_text() == "# every failure has a name\n"


def test_an_error_is_raised_by_the_rank_that_has_it(written):
    code = LAST_COLUMN.replace("        return {n: a", "        if self.world.rank == 1:\n            raise OSError('mine')\n"
                               "        return {n: a")
    file = written("raises", code, "--only", "dense/one")
    said = subprocess.run([sys.executable, file], capture_output=True, text=True).stderr
    assert said.splitlines()[-1] == "OSError: mine"


@pytest.mark.parametrize("code, words", [
    (GUIDE.replace("comm.allreduce(arrays[name])", "abs(comm.allreduce(arrays[name]) - 7)"), r"rank 0: \S+\[0.*\] is .*, expected "),
    (GUIDE.replace("return {name: comm", "return {}[comm.rank] or {name: comm"), "KeyError: 0")])
def test_under_mpirun(written, code, words):
    """Of wrong numbers, and of an error."""
    file = written(f"guide_{len(code)}", code, "--only", "dense/exact-float32")
    assert file.read_text().splitlines()[1] == "# mpirun -n 2 python -m mpi4py FILE"
    job = launch(2, ["-m", "mpi4py", str(file)], timeout=60, capture=True)
    assert re.search(words, job.stdout + job.stderr)
