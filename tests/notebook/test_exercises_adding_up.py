"""The checks of notebook 1 tell right answers from the wrong ones that readers give."""

import pytest

from refimpl.collectives import make_schedule
from refimpl.notebook.exercises.adding_up import check_bytes, check_counted_twice, check_my_ring, to_the_right

RING = list(make_schedule("ring", 4, 4).rounds)


def ring(ranks, first=1, steps=None):
    for step in range(ranks - 1):
        yield to_the_right([(rank - step) % ranks for rank in range(ranks)], add=True)
    for step in range(ranks - 1 if steps is None else steps):
        yield to_the_right([(rank + first - step) % ranks for rank in range(ranks)])


@pytest.mark.parametrize(("answer", "said"), [
    (56, "the first half alone"), (128, "close"), (64, "how many rounds"), (896, "how many rounds")])
def test_bytes(answer, said):
    assert check_bytes(112).right and check_bytes(112.0).right and check_bytes(...).right is None
    assert check_bytes(answer).right is False and said in check_bytes(answer).why


def test_counted_twice():
    twice = check_counted_twice([RING[0], *RING])
    assert twice.right
    assert "rank 1 adds slot 1 to slot 0 in chunk 0, and counts more than once: microbatch 0" in twice.why
    assert check_counted_twice(...).right is None
    assert "nothing against" in check_counted_twice(RING).why and check_counted_twice(RING).right is False
    lost = check_counted_twice(RING[:-1])
    assert lost.right is False and "in another way" in lost.why and "lost microbatch 1" in lost.why


def test_my_ring():
    assert check_my_ring(ring).right
    assert check_my_ring(lambda ranks: [to_the_right([...] * ranks)]).right is None
    assert check_my_ring(...).right is None
    wrong_chunk = check_my_ring(lambda ranks: ring(ranks, first=0))
    assert wrong_chunk.right is False and "my ring over 2 ranks: rank 0 ends with a wrong chunk" in wrong_chunk.why
    one_more = check_my_ring(lambda ranks: ring(ranks, steps=ranks))
    assert one_more.right is False and "is the number of steps right" in one_more.why
