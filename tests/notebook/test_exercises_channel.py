"""The checks of notebook 13 tell right answers from the wrong ones that readers give."""

import pytest

from refimpl.notebook.exercises.channel import check_bytes, check_may_write, check_size


@pytest.mark.parametrize(("answer", "said"), [
    (100_000, "the whole includes the call"), (10_000, "the call is a half"), (10_000 / 9, "the other way round"),
    (1, "a shall be a tenth of both")])
def test_size(answer, said):
    assert check_size(90_000).right and check_size(...).right is None
    assert check_size(answer).right is False and said in check_size(answer).why


@pytest.mark.parametrize(("answer", "said"), [
    (256_000, "payload alone"), (256_016, "a static tensor"), (256_040, "a matrix has two"), (1, "n + m + 8")])
def test_bytes(answer, said):
    assert check_bytes(256_048).right and check_bytes(...).right is None
    assert check_bytes(answer).right is False and said in check_bytes(answer).why


@pytest.mark.parametrize(("answer", "said"), [
    (lambda written, read, slots: True, "0 are free, and may_write says True"),
    (lambda written, read, slots: written == read, "1 is free, and may_write says False"),
    (lambda written, read, slots: written - read <= slots, "0 are free")])
def test_may_write(answer, said):
    assert check_may_write(lambda written, read, slots: written - read < slots).right
    assert check_may_write(lambda written, read, slots: ...).right is None
    assert check_may_write(answer).right is False and said in check_may_write(answer).why
