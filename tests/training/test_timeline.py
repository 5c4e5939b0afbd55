"""Phases within phases, and on two threads at once."""

import threading
import time

import pytest

from refimpl.training.timeline import Timeline, chrome_events


def test_a_phase_within_another_is_not_counted_twice():
    timeline = Timeline(keep=True)
    begin = time.perf_counter()
    with timeline.phase("compute"):
        time.sleep(0.01)
        for _ in range(2):
            with timeline.phase("waiting"):
                time.sleep(0.02)
    whole = time.perf_counter() - begin
    assert timeline.seconds["waiting"] >= 0.04 and 0.01 <= timeline.seconds["compute"] < 0.02
    assert sum(timeline.seconds.values()) == pytest.approx(whole, abs=1e-3)
    (_, outer_begin, outer_end, _, _) = timeline.spans[-1]
    assert all(outer_begin <= begin and end <= outer_end for _, begin, end, _, _ in timeline.spans)


def test_another_thread_has_its_own_lane_and_leaves_this_ones_phases_alone():
    timeline = Timeline(keep=True)

    def beside():
        for _ in range(200):
            with timeline.phase("push"), timeline.phase("agree"):
                pass

    threads = [threading.Thread(target=beside) for _ in range(3)]
    with timeline.phase("compute"):
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert set(timeline.seconds) == {"compute", "push", "agree"} and len(timeline.spans) == 1201
    assert all((lane == 0) == (name == "compute") for name, *_, lane in timeline.spans)
    names = [e for e in chrome_events(2, timeline.spans, 0.0) if e["name"] == "thread_name"]
    assert [(e["tid"], e["args"]["name"]) for e in names] == [(0, "step"), (1, "exchange")]
    events = [e for e in chrome_events(2, timeline.spans, 0.0) if e["ph"] == "X"]
    assert {e["tid"] for e in events if e["name"] == "push"} == {1} and all(e["pid"] == 2 for e in events)
