"""Phases within phases, on two threads at once, and as a trace has them."""

import threading
import time

import pytest

from refimpl.training.run import timeline as timeline_module
from refimpl.training.run.timeline import Timeline, chrome_events


def test_a_phase_within_another_is_not_counted_twice(monkeypatch):
    now = [5.0]
    monkeypatch.setattr(timeline_module.time, "perf_counter", lambda: now[0])
    timeline = Timeline(keep=True)
    with timeline.phase("compute"):
        now[0] += 1
        for _ in range(2):
            with timeline.phase("waiting"):
                now[0] += 4
        now[0] += 2
    assert timeline.seconds == {"waiting": 8.0, "compute": 3.0}
    assert [span[:3] for span in timeline.spans] == [("waiting", 6.0, 10.0), ("waiting", 10.0, 14.0),
                                                    ("compute", 5.0, 16.0)]
    silent = Timeline()
    with silent.phase("push"):
        pass
    assert silent.spans == []


def test_a_trace_has_the_phases_of_each_step_also_of_one_that_failed():
    timeline = Timeline(keep=True)
    for step in range(2):
        timeline.start_step(step)
        with timeline.phase("push"):
            time.sleep(0.001)
        with pytest.raises(KeyError), timeline.phase("pull"):
            raise KeyError
    assert set(timeline.seconds) == {"push", "pull"} and 0.001 <= timeline.seconds["push"]
    name, *events = chrome_events(3, timeline.spans, origin=timeline.spans[0][1])
    assert name["ph"] == "M" and name["args"] == {"name": "rank 3"} and events[0]["ts"] == 0
    assert [(e["name"], e["args"]["step"]) for e in events] == [("push", 0), ("pull", 0), ("push", 1), ("pull", 1)]
    assert all(a["ts"] + a["dur"] <= b["ts"] for a, b in zip(events, events[1:]))


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
