"""Pictures of trainings and plans: the numbers in them are those of the runs, and they say what they show."""

import json

import numpy as np
import pytest

from refimpl.collectives.simulation.network import Network
from refimpl.pictures.plans import draw_plan, draw_search, fit_of, plot_search
from refimpl.pictures.runs import bytes_by_kind, plot_busiest, plot_bytes, plot_cards, plot_throughput
from refimpl.pictures.timeline import Span, draw_timeline, own_milliseconds, read_trace, spans_of, typical_step
from refimpl.plan.partitions.search import Fit, PartitionSearch
from refimpl.training.planning.plan_ahead import plan_ahead
from refimpl.training.run.timeline import chrome_events
from refimpl.transport.machines import in_blocks

RECORD = {"bytes_sent": {"pull": {"words": {"indices": [8, 16], "rows": [100, 200]}, "": {"control": [1, 1]}}},
          "bytes_received": {"pull": {"words": {"indices": [16, 8], "rows": [200, 100]}},
                             "allreduce": {"kernel": {"dense": [1000, 1001]}}}}


def test_bytes_add_up_both_ways_by_kind():
    found = bytes_by_kind([RECORD, RECORD])
    assert list(found) == ["dense", "rows", "indices", "control"]
    assert {kind: counts.tolist() for kind, counts in found.items()} == {
        "dense": [1000, 1001], "rows": [300, 300], "indices": [24, 24], "control": [1, 1]}


def test_bytes_are_drawn_with_their_numbers():
    picture = plot_bytes({"hybrid": [RECORD], "ps": [{**RECORD, "bytes_sent": {}}]})
    assert "hybrid, the busiest rank 0.00133 MB, all 0.00265 MB" in picture.alt
    rows = [line.split() for line in picture.numbers.splitlines()]
    assert ["hybrid", "1", "1,001", "300", "24", "1", "1,326"] in rows
    assert ["ps", "0", "1,000", "200", "16", "0", "1,216"] in rows
    assert "row numbers" in picture.svg and "control" not in picture.svg  # too little to be seen: not in the legend
    assert picture.svg == plot_bytes({"hybrid": [RECORD], "ps": [{**RECORD, "bytes_sent": {}}]}).svg


def test_the_busiest_rank_stands_for_a_way():
    ways = {"hybrid": {"dense": np.array([1e6, 2e6]), "rows": np.array([5e5, 5e5])},
            "ps": {"dense": np.array([9e6, 1e6]), "control": np.array([8, 8])}}
    picture = plot_busiest(ways)
    assert picture.alt.endswith("hybrid 2.5 MB (2.0 dense values, 0.5 values of rows); ps 9.0 MB (9.0 dense values, 0.0 values "
                                "of rows)")
    rows = [line.split() for line in picture.numbers.splitlines()]
    assert rows[1:] == [["hybrid", "1", "2,000,000", "500,000", "0", "0"], ["ps", "0", "9,000,000", "0", "0", "8"]]
    assert "row numbers" not in picture.svg and picture.svg == plot_busiest(ways).svg


def test_throughput_says_how_many_times_the_slowest():
    picture = plot_throughput({"hybrid": 300.0, "ps": 200.0}, limits={"ps": 250.0})
    assert picture.alt == "Measured words a second: hybrid 300, 1.50 times the slowest; ps 200, 1.00 times the slowest"
    assert [line.split() for line in picture.numbers.splitlines()][2] == ["ps", "200", "250"]
    assert "predicted" not in plot_throughput({"hybrid": 300.0}).svg


def test_cards_carry_payload_framing_and_what_the_formula_says():
    account = {"steps": 2, "card": [2200, 2000], "payload": [2000, 1900], "formula_steps": 1,
               "formula_payload": [1000, 950], "formula": [1000, 950]}
    picture = plot_cards({"on": [account], "off": [account, {**account, "card": [4400, 4000]}]})
    assert picture.alt.endswith("on, 0.0021 MB; off, 0.0042 MB")
    rows = [line.split() for line in picture.numbers.splitlines()]
    assert rows[1] == ["on", "0", "2,100", "1,950", "1,950", "1,950"] and rows[3][:3] == ["off", "1", "4,200"]


def event(rank, lane, name, begin, end, step=0):
    return chrome_events(rank, [(name, begin * 1e-3, end * 1e-3, step, lane)], 0.0)[-1]


STEP = [event(0, 0, "compute", 10, 30), event(0, 0, "waiting for exchange", 12, 17), event(0, 0, "update", 30, 31),
        event(0, 1, "pull", 11, 16), event(1, 0, "compute", 12, 26), event(1, 1, "push", 26, 40)]


def test_a_step_is_drawn_from_its_spans():
    spans = spans_of(STEP)
    assert spans[0] == Span(0, 0, "compute", 0.0, pytest.approx(20))
    assert {k: pytest.approx(v) for k, v in own_milliseconds(spans).items()} == {
        (0, 0, "compute"): 15, (0, 0, "waiting"): 5, (0, 0, "update, norm, data"): 1, (0, 1, "pull"): 5,
        (1, 0, "compute"): 14, (1, 1, "push"): 14}
    picture = draw_timeline({"hybrid": STEP, "one rank": STEP[:1]})
    assert picture.alt.endswith("hybrid, 30 ms; one rank, 20 ms")
    assert ["hybrid", "0", "step", "15.0", "1.0", "5.0", "0.0", "0.0"] in map(str.split, picture.numbers.splitlines())
    assert "allgather" not in picture.svg


def test_the_typical_step_is_the_one_of_median_duration(tmp_path):
    events = [event(0, 0, "compute", 0, 9, 1), event(0, 0, "compute", 20, 25, 2), event(0, 0, "push", 20, 27, 2),
              event(0, 0, "compute", 30, 31, 3), *chrome_events(1, [], 0.0)]
    (tmp_path / "trace.json").write_text(json.dumps({"traceEvents": events}))
    assert {e["args"]["step"] for e in typical_step(read_trace(tmp_path))} == {2}
    with pytest.raises(ValueError, match="--trace"):
        read_trace(tmp_path / "elsewhere")
    with pytest.raises(ValueError, match="without a step"):
        typical_step(chrome_events(0, [], 0.0))
    span = {"ph": "X", "dur": 1.0, "args": {"step": 1}}
    with pytest.raises(ValueError, match="without finite times"):
        typical_step([{**span, "ts": 0.0}, {**span, "ts": float("nan")}])


def test_a_plan_shows_every_strategy_and_the_chosen_one():
    network = Network(in_blocks(4, 1), latency=1e-4, bandwidth_out=1e6, bandwidth_in=1e6)
    chosen = plan_ahead("lm", network, architecture="hybrid", data="synthetic:300", preset="tiny", sampled_steps=1,
                        shard_optimizer=True)
    picture = draw_plan(chosen)
    rows = {line.split()[0]: line.split() for line in picture.numbers.splitlines()}
    for forecast in chosen.forecasts:
        row = rows[forecast.variable]
        assert row[2] == forecast.strategy == ("server" if forecast.sparse else "reduce-scatter")
        assert {f"{candidate.card_bytes:,}" for candidate in forecast.candidates.values()} <= set(row)
    assert np.all([f.variable in picture.alt for f in chosen.forecasts])


CURVE = Fit(0.1, 0.4, 0.01)


def searched():
    search = PartitionSearch(4, 1000)
    while (count := search.propose()) is not None:
        search.measured(count, CURVE.seconds(count))
    return search.to_json()


def test_samples_curve_and_choice_are_told(tmp_path):
    found = searched()
    picture = draw_search(found)
    assert "order: 4 (240 ms), 8 (230 ms), 16 (285 ms), 2 (320 ms), 6 (227 ms); chosen: P = 6." in picture.alt
    assert picture.numbers.splitlines()[1].split() == ["1", "4", "240.0", "240.0"]
    assert abs(fit_of(found).theta1 - 0.4) < 1e-9 and "chosen: P = 6" in picture.svg
    cut_short = draw_search({**found, "finished": False})
    assert "P = 6 when the training ended, before the search" in cut_short.alt and "chosen" not in cut_short.text
    assert plot_search(found, tmp_path / "search.png").read_bytes().startswith(b"\x89PNG")


def test_without_a_curve_and_with_one_sample():
    found = {"samples": [{"partitions": 3, "seconds": 0.5}], "theta": None, "chosen": 3}
    picture = draw_search(found)
    assert fit_of(found) is None and picture.numbers.splitlines()[1].split() == ["1", "3", "500.0"]
