"""collectives show, exactness, simulate: tables, JSON, pictures, and refusals that name the culprit."""

import json

import pytest

from refimpl.cli import main
from refimpl.collectives import ALGORITHMS


def told(capsys, *arguments):
    assert main(["collectives", *arguments]) == 0
    return capsys.readouterr().out


def shown(capsys, *arguments):
    return told(capsys, "show", *arguments)


def errors(capsys, *arguments):
    return told(capsys, "exactness", "--elements", "33", *arguments)


def simulated(capsys, *arguments):
    return told(capsys, "simulate", *arguments)


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


def test_table_of_all_algorithms(capsys):
    out = errors(capsys, "--ranks", "6")
    for words in ("33 sums over 6 ranks", "hierarchical 3+3", "binary-blocks", "float16", "float64", "of bound",
                  "left out: halving-doubling needs a power of two"):
        assert words in out


def test_errors_as_json_are_one_object(capsys):
    found = json.loads(errors(capsys, "--json"))
    assert found["left_out"] == [] and len(found["results"]) == 3 * len(ALGORITHMS)
    assert all(row["largest_ratio"] <= 1 and row["agree"] for row in found["results"])
    one = json.loads(errors(capsys, "hierarchical", "--machines", "1", "2", "--ranks", "3", "--dtype", "float16",
                           "--json"))
    assert [row["machines"] for row in one["results"]] == [[1, 2]]


def test_json_has_the_formulas_numbers(capsys):
    out = simulated(capsys, "ring", "--ranks", "4", "--rate", "200mbit", "--latency", "1ms", "--bytes", "16MiB",
                "--reduction", "1e9", "--json")
    row = json.loads(out)["results"][0]
    n = 16 << 20
    seconds = 6e-3 + 1.5 * n / 25e6 + 0.75 * n / 1e9
    assert row["seconds"] == pytest.approx(seconds, rel=1e-9)  # moments are summed up over six rounds
    assert row["bus_bandwidth"] == pytest.approx(1.5 * n / seconds)
    assert row["line_rate"] == pytest.approx(1.5 * n / 25e6 / seconds) and row["bytes_out"] == 1.5 * n


def test_all_algorithms_make_a_table(capsys):
    out = simulated(capsys, "all", "--ranks", "6", "--ranks-per-machine", "2", "--rate", "200mbit")
    assert "hierarchical" in out and "ring" in out and "halving-doubling" not in out
    assert simulated(capsys, "ring", "direct", "--ranks", "1", "--json")


def test_the_slowest_card_holds_up_a_ring(capsys):
    network = ["ring", "--ranks", "4", "--latency", "0us", "--reduction", "1e18", "--bytes", "16MiB", "--json"]
    found = json.loads(simulated(capsys, *network, "--rates", "200mbit,200mbit,100mbit,200mbit"))
    assert found["results"][0]["seconds"] == pytest.approx(1.5 * (16 << 20) / 12.5e6)
    assert found["results"][0]["busiest_machine"] == 2


def test_trees_on_the_links_that_they_are_packed_for(capsys):
    """A rank sends at most twice what a link of rate 1 carries in the time, and pipelined both ways at once."""
    given = ["canonical-trees:star-2,2,1,2", "direct", "--links", "star-2,2,1,2", "--segments", "128", "--json"]
    found = json.loads(simulated(capsys, *given, "--rate", "100mbit"))
    trees, direct = found["results"]
    assert found["network"] == "star-2,2,1,2" and trees["algorithm"] == given[0]
    assert trees["line_rate"] == pytest.approx(1, abs=0.02) and direct["line_rate"] == pytest.approx(2 / 3, abs=0.02)
    found = json.loads(simulated(capsys, "hierarchical-trees:star-2,2,1,2", "hierarchical", "--ranks", "8", *given[-3:],
                                 "--ranks-per-machine", "2", "--rates", "200mbit,200mbit,100mbit,200mbit"))
    trees, hierarchical = found["results"]
    assert hierarchical["seconds"] == pytest.approx(1.5 * trees["seconds"], rel=0.02)


@pytest.mark.parametrize("arguments, message", [
    (["show", "halving-doubling", "--ranks", "3"], "needs a power of two of ranks (3 given)"),
    (["show", "hierarchical", "--ranks", "2", "--machines", "2", "1"], "machines must hold ranks 0 to 1"),
    (["show", "ring", "--ranks", "2", "--output", "picture.xyz"],
     "cannot draw into picture.xyz: Format 'xyz' is not supported"),
    (["show", "ring", "--ranks", "2", "--output", "none/picture.svg"],
     "into none/picture.svg: No such file or directory"),
    (["exactness", "nonsense"], "no allreduce algorithm 'nonsense'; there are auto, direct"),
    (["exactness", "--machines", "3"], "machines must hold ranks 0 to 7"),
    (["simulate", "ring", "--links", "dgx-1v"], "dgx-1v: no link and no switch joins rank 3 to rank 4"),
    (["simulate", "ring", "--links", "star-1,1", "--ranks", "3"], "--links star-1,1 has 2 ranks, each a machine"),
    (["simulate", "ring", "--links", "star-1,1", "--rates", "1gbit,1gbit"],
     "--rates describes network cards, but --links"),
    (["simulate", "--ranks", "3"], "name an algorithm"), (["simulate", "ring"], "and --ranks of at least 1"),
    (["simulate", "ring", "--ranks", "3", "--latency", "5lightyears"], "--latency '5lightyears'"),
    (["simulate", "ring", "--ranks", "3", "--rate", "fast"], "--rate: "),
    (["simulate", "ring", "--ranks", "1", "--rates", "fast"], "--rates: "),
    (["simulate", "ring", "--ranks", "3", "--rates", "1gbit,2gbit"], "--rates has 2 rates, and there are 3 machines"),
    (["simulate", "nonsense", "--ranks", "3"], "no allreduce algorithm"),
])
def test_refusals(capsys, arguments, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["collectives", *arguments]) == 1
    assert message in capsys.readouterr().err
