"""Cut into segments, a schedule sends the same bytes between the same ranks, each element once a transfer."""

from collections import Counter

import pytest

from refimpl.collectives import ALGORITHMS, make_schedule
from refimpl.collectives.running import segments
from refimpl.collectives.running.segments import Cut, segments_of, steps_of
from refimpl.transport.machines import in_blocks


def _schedule(algorithm, ranks):
    machines = in_blocks(ranks, 2) if algorithm == "hierarchical" else None
    return make_schedule(algorithm, ranks, ranks, machines=machines)


@pytest.mark.parametrize("algorithm", sorted(ALGORITHMS))
@pytest.mark.parametrize("count, elements", [(1, 101), (2, 0), (7, 3), (7, 101)])
def test_every_element_of_a_transfer_is_sent_once(algorithm, count, elements):
    ranks = 4
    schedule = _schedule(algorithm, ranks)
    bounds = schedule.bounds(elements)
    cut = Cut(bounds, count)
    wanted, sent = Counter(), Counter()
    for t in (t for step in schedule.rounds for t in step.transfers):
        wanted.update((t.source, t.destination, t.origin, e) for e in range(bounds[t.start], bounds[t.stop]))
    for rank in range(ranks):
        for segment in range(count):
            for step in steps_of(schedule.rounds, rank, ranks, cut, segment):
                sent.update((rank, peer, p.slot, e) for peer, p in step.sends for e in range(p.start, p.stop))
                assert all((a.start, a.stop) == (b.start, b.stop) for a, b in step.sums)
    assert sent == wanted


@pytest.mark.parametrize("algorithm", sorted(ALGORITHMS))
def test_messages_of_a_pair_meet_in_order(algorithm):
    ranks, count = 4, 5
    schedule = _schedule(algorithm, ranks)
    cut = Cut(schedule.bounds(1003), count)
    for segment in range(count):
        sent, received = {}, {}
        for rank in range(ranks):
            for step in steps_of(schedule.rounds, rank, ranks, cut, segment):
                for peer, p in step.sends:
                    sent.setdefault((rank, peer), []).append((p.start, p.stop))
                for peer, p in step.receives:
                    received.setdefault((peer, rank), []).append((p.start, p.stop))
        assert sent == received


def test_small_vectors_are_one_segment_and_large_ones_are_cut(monkeypatch):
    monkeypatch.setattr(segments, "SEGMENT_BYTES", 3 * 1000)
    schedule = make_schedule("ring", 4, 4)
    assert [segments_of(schedule, n, 4) for n in (0, 1, 999, 2000, 4000, 40_000)] == [1, 1, 1, 2, 4, 40]
    assert segments_of(schedule, 40_000, 4, machines=1) == 1


def test_neighbouring_chunks_are_one_message_only_where_they_are_whole():
    assert len(Cut([0, 3, 6, 9], 1).pieces(0, 0, 0, 3)) == 1
    assert [(p.start, p.stop) for p in Cut([0, 3, 6, 9], 2).pieces(1, 0, 0, 3)] == [(1, 3), (4, 6), (7, 9)]
