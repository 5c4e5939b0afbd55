"""The checks of notebook 12 tell right answers from the wrong ones that readers give."""

import pytest

from refimpl.notebook.exercises.survival import check_bytes, check_nodes, check_partner


@pytest.mark.parametrize(("answer", "said"), [
    ([(2, 5)], "no node of the tree"), ([(2, 3), (3, 4), (4, 5)], "that is a node"), ([(3, 5)], "count from 0")])
def test_nodes(answer, said):
    assert check_nodes([(4, 5), (2, 4)]).right and check_nodes(...).right is None
    assert check_nodes(answer).right is False and said in check_nodes(answer).why


@pytest.mark.parametrize(("answer", "said"), [
    (3_200_000, "keep beside them"), (6_400_000, "must be copied, too"), (76_800_000, "the whole table"),
    (2_400_000, "these are numbers"), (1, "rows of one rank")])
def test_bytes(answer, said):
    assert check_bytes(9_600_000).right and check_bytes(...).right is None
    assert check_bytes(answer).right is False and said in check_bytes(answer).why


@pytest.mark.parametrize(("answer", "said"), [
    (lambda rank, ranks, each: (rank + 1) % ranks, "on 3 machines of 2 ranks rank 0 and its partner 1 die"),
    (lambda rank, ranks, each: rank + each, "What comes after the last"),
    (lambda rank, ranks, each: 0 if rank >= each else each, "gets several copies")])
def test_partners(answer, said):
    assert check_partner(lambda rank, ranks, each: (rank + each) % ranks).right
    assert check_partner(lambda rank, ranks, each: (rank - each) % ranks).right
    assert check_partner(lambda rank, ranks, each: ...).right is None
    assert check_partner(answer).right is False and said in check_partner(answer).why
