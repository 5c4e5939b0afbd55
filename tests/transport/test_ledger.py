"""The ledger of bytes: what is counted at once, and what is counted when someone reads it."""

import sys
from threading import Thread

from refimpl.transport import ledger
from refimpl.transport.ledger import Ledger


def _one(elements=3, direction="sent"):
    one = Ledger()
    one.count(direction, True, "step", {"v": elements}, "dense", 4)
    return one


def test_repeated_exchanges_are_counted_when_they_are_read(monkeypatch):
    monkeypatch.setattr(ledger, "MOST_REPEATED", 5)
    found, sent, received = Ledger(), _one(), _one(5, "received")
    sent.read_in_place.add("step")
    for _ in range(7):
        found.repeat(sent)
        found.repeat(received)
        assert len(found._repeated) <= 5
    found.count("sent", False, "step", {"v": 1}, "dense", 4)
    assert found.total() == 7 * 12 + 4 and found.total("crossed_sent") == 7 * 12 and found.read_in_place == {"step"}
    assert found.received["step", "v", "dense"] == found.total("crossed_received") == 7 * 20
    found.repeat(sent)
    found.clear()
    assert found.total() == 0 and not found.read_in_place


def test_what_was_added_may_change_later():
    found, one = Ledger(), Ledger()
    one.repeat(_one())
    found.add(one)
    one.clear()
    assert found.total() == 12


def test_two_threads_lose_no_byte():
    found, one, before = Ledger(), _one(), sys.getswitchinterval()

    def work():
        for _ in range(3000):
            found.repeat(one)
            found.total()

    work()  # so that no thread adds a key while the other one reads
    threads = [Thread(target=work) for _ in range(2)]
    sys.setswitchinterval(1e-6)
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(before)
    assert found.total() == found.total("crossed_sent") == 9000 * 12
