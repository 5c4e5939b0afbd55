"""Bytes from rank to rank without a place for each pair: sums, transposes and what is read of them, beside matrices."""

import numpy as np
import pytest

from refimpl.plan import make_plan
from refimpl.plan.between import Between, Product
from refimpl.strategies.served_bytes import across

MACHINES = ((0, 2, 5), (1, 6), (3,), (4, 7))
PART = np.array([0, 1, 0, 2, 3, 0, 1, 3])


def some_bytes(kind, rng):
    out, into = rng.integers(0, 5, (2, 8))
    if kind == "listed":
        return Between.listed(8, *rng.integers(0, 8, (2, 40)), rng.integers(0, 5, 40))
    if kind == "to all":
        return Between.to_all(out)
    plan = make_plan([], "ps", 8, 8, machines=MACHINES, local_aggregation=kind == "by aggregators")
    return across(plan, out, into)


def check(found, matrix):
    """Compare all that is read with the matrix."""
    assert np.array_equal(found, matrix) and found.any() == matrix.any() and found.largest() == matrix.max()
    assert np.array_equal(found.received(), matrix.sum(axis=0))
    assert np.array_equal(found.messages(), (matrix > 0).sum(axis=0) + (matrix > 0).sum(axis=1))
    within = matrix * (PART[:, None] == PART)
    sums = (matrix - within).sum(axis=1), (matrix - within).sum(axis=0), within.sum(axis=1)
    assert np.array_equal(found.by_machine(PART), [np.bincount(PART, of) for of in sums])


@pytest.mark.parametrize("kind", ["listed", "to all", "by ranks", "by aggregators"])
def test_all_that_is_read_is_that_of_the_matrix(kind):
    rng = np.random.default_rng(len(kind))
    for _ in range(20):
        sent = some_bytes(kind, rng)
        matrix = np.asarray(sent)
        assert matrix.dtype == np.int64 and not np.diagonal(matrix).any()
        check(sent, matrix)
        check(3 * sent.T, 3 * matrix.T)
        check(sent + sent, 2 * matrix)
        check(sent + some_bytes("listed", np.random.default_rng(0)),
              matrix + np.asarray(some_bytes("listed", np.random.default_rng(0))))


def test_products_of_one_sender_list_stay_products():
    """Else the bytes of thousands of ranks would become a matrix."""
    ones, group, rng = np.ones(8, np.int64), np.arange(8) % 2, np.random.default_rng(1)
    first, second, other = (Product(rng.integers(1, 5, 8), ones, group, group) for _ in range(3))
    assert len((Between(products=(first,)) + Between(products=(second,))).products) == 1
    apart = Between(products=(first,)) + Between(products=(other._replace(into=2 * ones),))
    assert not apart.products and np.array_equal(apart, np.asarray(Between(products=(first,))) + np.asarray(
        Between(products=(other._replace(into=2 * ones),))))


def test_the_aggregators_of_unequal_machines():
    """Owner 5 is third on its machine: its clients are rank 1 of (1, 6), as 2 mod 2 = 0; rank 3; and rank 4."""
    plan = make_plan([], "ps", 8, 8, machines=MACHINES)
    matrix = np.asarray(across(plan, np.ones(8, np.int64), np.ones(8, np.int64)))
    assert np.flatnonzero(matrix[:, 5]).tolist() == [1, 3, 4]
    clients = plan.clients()
    assert [np.flatnonzero(row).tolist() for row in matrix] == [list(owners) for owners in clients.owners]
