"""collectives show: properties as text and JSON, the picture, and refusals that name the culprit."""

import json

import pytest

from refimpl.cli import main
from refimpl.collectives import ALGORITHMS


def shown(capsys, *arguments):
    assert main(["collectives", "show", *arguments]) == 0
    return capsys.readouterr().out


def test_text_tells_properties_and_draws(capsys):
    out = shown(capsys, "ring", "--ranks", "6")
    for words in ("ring: allreduce over 6 ranks, 6 microbatches", "order       not reproducible", "rounds      10",
                  "1.67 n by the busiest", "lower bound 1.67 n", "busiest: rank 0 to rank 1, 1.67 n",
                  " 0  0>r1    1>r2"):
        assert words in out


def test_json_is_one_object(capsys):
    found = json.loads(shown(capsys, "halving-doubling", "--ranks", "4", "--microbatches", "8", "--json"))
    assert found["canonical"] and found["rounds"] == 4 and found["sent"] == [1.5] * 4 and found["bound"] == 1.5
    assert found["microbatches"] == 8 and found["busiest_link"] == {"source": 0, "destination": 1, "sent": 1.0}
    assert "picture" not in found


@pytest.mark.parametrize("algorithm", ["auto", *ALGORITHMS])
def test_every_algorithm_is_shown(capsys, algorithm):
    machines = ["--machines", "4", "4"] if algorithm == "hierarchical" else []
    assert json.loads(shown(capsys, algorithm, "--ranks", "8", "--json", *machines))["ranks"] == 8


def test_one_rank_has_nothing_to_send(capsys):
    out = shown(capsys, "direct", "--ranks", "1")
    assert "over 1 rank, 1 microbatch, a vector of n bytes in 1 chunk\n" in out
    assert "rounds      0" in out and "busiest: rank" not in out and ">r" not in out


def test_halves_machines_and_picture(capsys, tmp_path):
    picture = tmp_path / "picture.png"
    found = json.loads(shown(capsys, "hierarchical", "--ranks", "6", "--machines", "4", "2", "--kind", "reduce-scatter",
                             "--output", str(picture), "--json"))
    assert found["kind"] == "reduce-scatter" and found["picture"] == str(picture) and found["bound"] == 5 / 6
    assert picture.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("arguments, message", [
    (["halving-doubling", "--ranks", "3"], "needs a power of two of ranks (3 given)"),
    (["hierarchical", "--ranks", "2", "--machines", "2", "1"], "machines must hold ranks 0 to 1"),
    (["ring", "--ranks", "2", "--output", "picture.xyz"],
     "cannot draw into picture.xyz: Format 'xyz' is not supported"),
    (["ring", "--ranks", "2", "--output", "none/picture.svg"], "into none/picture.svg: No such file or directory"),
])
def test_refusals(capsys, arguments, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["collectives", "show", *arguments]) == 1
    assert message in capsys.readouterr().err
