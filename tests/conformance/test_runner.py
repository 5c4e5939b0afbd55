"""Running adapters in processes of their own: crashes, hangs, disagreement; reports and expected failures."""

import json
import re
import textwrap
from pathlib import Path

import pytest

from refimpl.cli import main
from refimpl.conformance.adapters.reference import Reference
from refimpl.conformance.cases import case_named
from refimpl.conformance.report import ExpectedFailures, html_page, plain, read_expected
from refimpl.conformance.runner import run_local, run_target
from refimpl.conformance.target import launcher_of

ADAPTER = '''
import json, os, pathlib, time
import numpy as np

LAUNCHER = "processes"
RANK, SIZE = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
BOX = pathlib.Path(os.environ["BOX"]) / os.environ["MASTER_PORT"]
turns = iter(range(10**6))

def allgather(array):
    """Every rank's array, through files."""
    BOX.mkdir(parents=True, exist_ok=True)
    turn = next(turns)
    np.save(BOX / f"new-{RANK}.npy", array)
    os.replace(BOX / f"new-{RANK}.npy", BOX / f"{turn}-{RANK}.npy")
    paths = [BOX / f"{turn}-{r}.npy" for r in range(SIZE)]
    while not all(path.exists() for path in paths):
        time.sleep(0.001)
    return [np.load(path) for path in paths]

def world():
    return RANK, SIZE

def describe():
    return {"format": 1, "name": "files", "sparse": "average"}

def aggregate_rows(gradients, shapes):
    result = {}
    for name in sorted(gradients):
        ids, rows = (np.concatenate(allgather(a)) for a in gradients[name])
        unique, place = np.unique(ids, return_inverse=True)
        total = np.zeros((len(unique), rows.shape[1]), rows.dtype)
        np.add.at(total, place, rows)
        result[name] = unique, total / rows.dtype.type(SIZE)
    return result
'''


@pytest.fixture
def adapter(adapter_module, tmp_path, monkeypatch):
    """adapter(name, more code) -> the name of a module that ranks can import."""
    monkeypatch.setenv("BOX", str(tmp_path / "box"))
    return lambda name, more="": adapter_module(name, ADAPTER + textwrap.dedent(more))


def status(outcome, case):
    return next(v for v in outcome.verdicts if v.case == case)


def test_a_correct_adapter_in_processes(adapter):
    outcome = run_target(adapter("correct_adapter"), 3, only="rows/")
    assert not outcome.failed and sum(v.status == "passed" for v in outcome.verdicts) > 10
    assert run_target("correct_adapter", 2, only="dense/").verdicts[0].why == "the adapter has no aggregate_dense"


def test_a_rank_that_raises_ends_one_case_only(adapter):
    name = adapter("raising_adapter", """
        right = aggregate_rows
        def aggregate_rows(gradients, shapes):
            if not all(len(ids) for ids, _ in gradients.values()):
                raise RuntimeError("no rows here")
            return right(gradients, shapes)
    """)
    outcome = run_target(name, 2, only="rows/e")
    assert {v.case for v in outcome.failed} == {"rows/empty-on-first", "rows/empty-on-last", "rows/empty-on-all"}
    first = status(outcome, "rows/empty-on-first")
    assert first.diagnosis.code == "empty-row-gradient"
    assert "rank 0: RuntimeError: no rows here; rank 1: never came back" in first.why
    assert status(outcome, "rows/exact").status == "passed"


def test_a_hang_costs_one_case(adapter):
    name = adapter("hanging_adapter", """
        right = aggregate_rows
        def aggregate_rows(gradients, shapes):
            if RANK == 1 and "mixed" in gradients:
                time.sleep(1000)
            return right(gradients, shapes)
    """)
    outcome = run_target(name, 2, only="rows/d", timeout=6)
    assert [v.case for v in outcome.failed] == ["rows/duplicates"]
    assert "still running after 0:00:06" in outcome.failed[0].why
    assert status(outcome, "rows/denormals").status == "passed"


@pytest.mark.thorough
def test_a_hang_before_the_first_case_ends_soon(adapter, monkeypatch):
    monkeypatch.setenv("REFIMPL_START_SECONDS", "2")
    name = adapter("waiting_adapter", "if RANK == 1: time.sleep(1000)")
    with pytest.raises(ValueError, match="did not start on 2 ranks: still running after 0:00:02, in File .*waiting"):
        run_target(name, 2, only="rows/duplicates", timeout=3)


@pytest.mark.thorough
def test_an_adapter_that_exits_costs_one_case(adapter):
    class Exits(Reference):
        def aggregate_dense(self, arrays):
            if self.world.rank == 1 and "turned" in arrays:
                raise SystemExit(0)
            return super().aggregate_dense(arrays)

    outcome = run_local(Exits, 2, [case_named(f"dense/{name}", 2) for name in ("tails", "strided", "steps")])
    assert [v.case for v in outcome.failed] == ["dense/strided"]
    assert "rank 1: SystemExit: 0; rank 0: LeftAlone" in outcome.failed[0].why
    name = adapter("exiting_adapter", """
        right = aggregate_rows
        def aggregate_rows(gradients, shapes):
            if RANK == 1 and "mixed" in gradients:
                raise SystemExit(0)
            return right(gradients, shapes)
    """)
    outcome = run_target(name, 2, only="rows/d", timeout=30)
    assert [v.case for v in outcome.failed] == ["rows/duplicates"]
    assert outcome.failed[0].why.startswith("rank 1: SystemExit: 0")


@pytest.mark.parametrize(("more", "words"), [
    ("def describe(): return {'format': 1, 'name': str(RANK)}", "describe() returns different manifests"),
    ("def describe(): return {'format': 1, 'sparse': 'mean'}", "sparse is 'mean'"),
    ("def world(): return RANK, SIZE + 1", "world() says [3] ranks, 2 were started"),
    ("del world", "has no world()"),
    ("import nothing_of_that_name", "nothing_of_that_name"),
])
def test_adapters_that_cannot_be_run(adapter, more, words, request):
    name = adapter(f"odd_adapter_{abs(hash(more))}", more)
    with pytest.raises(ValueError, match=re.escape(words)):
        run_target(name, 2, only="rows/exact", timeout=30)


def test_names_that_are_none(adapter):
    with pytest.raises(ValueError, match="no adapter no_such_adapter"):
        run_target("no_such_adapter", 2)
    with pytest.raises(ValueError, match="LAUNCHER is 'slurm'; there are mpi, processes, local"):
        launcher_of(adapter("slurm_adapter", "LAUNCHER = 'slurm'"))
    with pytest.raises(ValueError, match="no case has 'xyz'"):
        run_target(adapter("fine_adapter"), 2, only="xyz")


SUMMING = """
    from refimpl.conformance.adapters.reference import Reference
    LAUNCHER = "local"
    class for_world(Reference):
        def over(self, array, divisor):
            return array
"""
"""An adapter that sums and declares an average; its ranks are threads of this process."""


def test_reports_say_what_is_wrong(adapter_module, tmp_path, capsys):
    name, page = adapter_module("summing_adapter", SUMMING), tmp_path / "report.html"
    arguments = ["conformance", "run", "--target", name, "--ranks", "2", "--only", "rows/p", "--html", str(page)]
    assert main(arguments) == 1
    text = " ".join(capsys.readouterr().out.split())
    assert "Your numbers match another rule: row gradients are summed over the ranks (sparse=sum)" in text
    assert "rows/provenance aggregate failed" in text and "items[" in text and "users[" in text
    assert "every number is 2 times the expected one: not averaged" in text
    assert main([*arguments, "--json"]) == 1
    data = json.loads(capsys.readouterr().out)["outcomes"][0]
    assert data["diagnoses"][0]["code"] == "sparse=sum" and data["counts"]["failed"] == 2
    failed = data["cases"][0]["findings"][0]
    assert failed["wanted"] * 2 == failed["found"] and failed["step"] == 0 and failed["element"]
    html = page.read_text()
    assert "row gradients are divided by N" in html and "rows/positions" in html
    assert re.search("<tr class=v><td>items<td><td class=failed>failed<td>exact", html)  # each variable of a case
    assert not re.search(r"<(link|script|img)|https?://", html)


def test_expected_failures(adapter_module, tmp_path, capsys):
    name, file = adapter_module("summing_adapter", SUMMING), tmp_path / "expected.json"
    arguments = ["conformance", "run", "--target", name, "--ranks", "2", "--only", "rows/p", "--expected-failures",
                 str(file)]
    file.write_text(json.dumps({"format": 1, "expected": {"rows/pro*": "sums", "rows/positions@2": "sums"}}))
    assert main(arguments) == 0
    file.write_text(json.dumps({"format": 1, "expected": {"rows/positions@3": "sums"}}))
    assert main(arguments) == 1
    file.write_text("[]")
    assert main(arguments) == 1
    assert 'give {"format": 1' in capsys.readouterr().err


def test_what_passes_again_is_told(tmp_path):
    outcome = run_target("refimpl.conformance.adapters.reference", 2, only="dense/p")
    expected = ExpectedFailures({"dense/*": "old"})
    assert expected.fixed(outcome.verdicts) == ["dense/*"]
    data = plain(outcome, expected)
    assert data["fixed"] == ["dense/*"] and json.loads(json.dumps(data, allow_nan=False)) == data
    assert "dense/provenance" in html_page([outcome])
    with pytest.raises(ValueError, match="it is not JSON"):
        (tmp_path / "bad").write_text("{")
        read_expected(tmp_path / "bad")


def test_our_own_implementation_under_mpirun():
    outcome = run_target("refimpl.conformance.adapters.ours", 2, only="rows/exact")
    assert [v.status for v in outcome.verdicts] == ["passed"]


def test_the_adapter_of_the_guide(adapter_module):
    """What docs/conformance.md shows is an adapter that passes."""
    guide = (Path(__file__).parents[2] / "docs" / "conformance.md").read_text()
    outcome = run_target(adapter_module("guide_adapter", guide.split("```python\n")[1].split("```")[0]), 2)
    assert not outcome.failed and sum(v.status == "passed" for v in outcome.verdicts) > 25
