"""collectives simulate: a table, JSON, formulas' numbers, and refusals that name the option."""

import json

import pytest

from refimpl.cli import main


def shown(capsys, *arguments):
    assert main(["collectives", "simulate", *arguments]) == 0
    return capsys.readouterr().out


def test_json_has_the_formulas_numbers(capsys):
    out = shown(capsys, "ring", "--ranks", "4", "--rate", "200mbit", "--latency", "1ms", "--bytes", "16MiB",
                "--reduction", "1e9", "--json")
    row = json.loads(out)["results"][0]
    n = 16 << 20
    seconds = 6e-3 + 1.5 * n / 25e6 + 0.75 * n / 1e9
    assert row["seconds"] == pytest.approx(seconds, rel=1e-9)  # moments are summed up over six rounds
    assert row["bus_bandwidth"] == pytest.approx(1.5 * n / seconds)
    assert row["line_rate"] == pytest.approx(1.5 * n / 25e6 / seconds) and row["bytes_out"] == 1.5 * n


def test_all_algorithms_make_a_table(capsys):
    out = shown(capsys, "all", "--ranks", "6", "--ranks-per-machine", "2", "--rate", "200mbit")
    assert "hierarchical" in out and "ring" in out and "halving-doubling" not in out
    assert shown(capsys, "ring", "direct", "--ranks", "1", "--json")


def test_the_slowest_card_holds_up_a_ring(capsys):
    network = ["ring", "--ranks", "4", "--latency", "0us", "--reduction", "1e18", "--bytes", "16MiB", "--json"]
    found = json.loads(shown(capsys, *network, "--rates", "200mbit,200mbit,100mbit,200mbit"))
    assert found["results"][0]["seconds"] == pytest.approx(1.5 * (16 << 20) / 12.5e6)
    assert found["results"][0]["busiest_machine"] == 2


def test_trees_on_the_links_that_they_are_packed_for(capsys):
    """A rank sends at most twice what a link of rate 1 carries in the time, and pipelined both ways at once."""
    given = ["canonical-trees:star-2,2,1,2", "direct", "--links", "star-2,2,1,2", "--segments", "128", "--json"]
    found = json.loads(shown(capsys, *given, "--rate", "100mbit"))
    trees, direct = found["results"]
    assert found["network"] == "star-2,2,1,2" and trees["algorithm"] == given[0]
    assert trees["line_rate"] == pytest.approx(1, abs=0.02) and direct["line_rate"] == pytest.approx(2 / 3, abs=0.02)
    found = json.loads(shown(capsys, "hierarchical-trees:star-2,2,1,2", "hierarchical", "--ranks", "8", *given[-3:],
                             "--ranks-per-machine", "2", "--rates", "200mbit,200mbit,100mbit,200mbit"))
    trees, hierarchical = found["results"]
    assert hierarchical["seconds"] == pytest.approx(1.5 * trees["seconds"], rel=0.02)


@pytest.mark.parametrize("arguments, words", [
    (["ring", "--links", "dgx-1v"], "dgx-1v: no link and no switch joins rank 3 to rank 4"),
    (["ring", "--links", "star-1,1", "--ranks", "3"], "--links star-1,1 has 2 ranks, each a machine"),
    (["ring", "--links", "star-1,1", "--rates", "1gbit,1gbit"], "--rates describes network cards, but --links"),
    (["--ranks", "3"], "name an algorithm"), (["ring"], "and --ranks of at least 1"),
    (["ring", "--ranks", "3", "--latency", "5lightyears"], "--latency '5lightyears'"),
    (["ring", "--ranks", "3", "--rate", "fast"], "--rate: "),
    (["ring", "--ranks", "1", "--rates", "fast"], "--rates: "),
    (["ring", "--ranks", "3", "--rates", "1gbit,2gbit"], "--rates has 2 rates, and there are 3 machines"),
    (["nonsense", "--ranks", "3"], "no allreduce algorithm"),
])
def test_refusals(capsys, arguments, words):
    assert main(["collectives", "simulate", *arguments]) == 1
    assert words in capsys.readouterr().err
