"""collectives exactness: the table, JSON, what is left out and refused."""

import json

import pytest

from refimpl.cli import main
from refimpl.collectives import ALGORITHMS


def shown(capsys, *arguments):
    assert main(["collectives", "exactness", "--elements", "33", *arguments]) == 0
    return capsys.readouterr().out


def test_table_of_all_algorithms(capsys):
    out = shown(capsys, "--ranks", "6")
    for words in ("33 sums over 6 ranks", "hierarchical 3+3", "binary-blocks", "float16", "float64", "of bound",
                  "left out: halving-doubling needs a power of two"):
        assert words in out


def test_json_is_one_object(capsys):
    found = json.loads(shown(capsys, "--json"))
    assert found["left_out"] == [] and len(found["results"]) == 3 * len(ALGORITHMS)
    assert all(row["largest_ratio"] <= 1 and row["agree"] for row in found["results"])
    one = json.loads(shown(capsys, "hierarchical", "--machines", "1", "2", "--ranks", "3", "--dtype", "float16",
                           "--json"))
    assert [row["machines"] for row in one["results"]] == [[1, 2]]


@pytest.mark.parametrize("arguments, message", [
    (["nonsense"], "no allreduce algorithm 'nonsense'; there are auto, direct"),
    (["--machines", "3"], "machines must hold ranks 0 to 7"),
])
def test_refusals(capsys, arguments, message):
    assert main(["collectives", "exactness", *arguments]) == 1
    assert message in capsys.readouterr().err
