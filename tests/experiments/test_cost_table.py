"""The cost table, measured: what the ledger counts in a step is the closed formula, to the byte."""

from fractions import Fraction

import pytest

from refimpl.collectives.simulation.network import Network
from refimpl.experiments.cost_table import (
    CostCase, closed_formula, count_bytes, foretell_seconds, lines_of_strategies, who_sends_whom,
)
from refimpl.plain.strategies.cost_table import Bytes
from refimpl.transport.machines import in_blocks

ALPHAS = [Fraction(0), Fraction(1, 20), Fraction(3, 10), Fraction(1)]
CASES = [CostCase(True, strategy, m, alpha=alpha) for strategy in ("server", "allgather", "as-dense") for m in (1, 12)
         for alpha in ALPHAS]
CASES += [CostCase(True, "server", alpha=alpha, partitions=12) for alpha in ALPHAS]
CASES += [CostCase(False, strategy, m) for strategy in ("server", "allreduce") for m in (1, 12)]


@pytest.mark.mpi
@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.thorough("variables=12, rows=240, columns=16, alpha=Fraction(1, 20)")
def test_measured_is_the_formula(comm, case):
    counted = count_bytes(case, comm)
    assert len(counted) == comm.size and max(counted, key=sum) == closed_formula(case, comm.size)
    if case.strategy != "server" or case.variables * case.partitions > 1:
        assert set(counted) == {closed_formula(case, comm.size)}  # no hot spot
    else:
        assert counted[0] == closed_formula(case, comm.size)
        assert all(sum(each) * (comm.size - 1) == sum(counted[0]) for each in counted[1:])


def test_by_hand():
    """4 ranks, 240 rows of 64 bytes, a half of them touched: w = 15,360."""
    half = Fraction(1, 2)
    assert closed_formula(CostCase(True, "server", alpha=half), 4) == Bytes(2 * 7680 * 3, 2 * 960 * 3)
    spread = CostCase(True, "server", alpha=half, partitions=4)
    assert closed_formula(spread, 4) == Bytes(4 * 7680 * 3 // 4, 4 * 960 * 3 // 4)
    assert closed_formula(CostCase(True, "allgather", alpha=half), 4) == Bytes(2 * 7680 * 3, 2 * 960 * 3)
    assert closed_formula(CostCase(True, "as-dense", alpha=half), 4) == Bytes(4 * (15360 + 4 * 240) * 3 // 4, 0)
    assert closed_formula(CostCase(False, "server"), 4) == Bytes(2 * 15360 * 3, 0)
    assert closed_formula(CostCase(False, "allreduce"), 4) == Bytes(4 * 15360 * 3 // 4, 0)


@pytest.mark.parametrize("ranks", [1, 2, 3, 4, 5])
def test_who_sends_whom_adds_up_to_the_formula(ranks):
    for case in CASES:
        if case.variables * case.partitions == 1 or case.variables * case.partitions % ranks == 0:
            matrix = who_sends_whom(case, ranks)
            assert (matrix.sum(axis=0) + matrix.sum(axis=1)).max() == sum(closed_formula(case, ranks))


def test_one_rank_sends_nothing():
    assert count_bytes(CostCase(True, "allgather", alpha=Fraction(1, 3))) == [Bytes(0, 0)]


def test_foretold_seconds_are_bytes_over_bandwidth_where_nothing_else_costs():
    network = Network(in_blocks(4, 1), 0.0, 1e6, 1e6, reduction=float("inf"))
    for case in (CostCase(True, "server", alpha=Fraction(1, 3), partitions=4),
                 CostCase(True, "allgather", alpha=Fraction(1, 3))):
        control = 8 * 3 * (2 if case.strategy == "server" else 1) * 2  # how many rows follow, in and out
        through_card = sum(closed_formula(case, 4)) + control
        assert foretell_seconds(case, network) == pytest.approx(through_card / 2 / 1e6, rel=1e-12)


@pytest.mark.parametrize("wrong, said", [
    (dict(sparse=True, strategy="allreduce"),
     "a sparse variable has no strategy 'allreduce'; give server, allgather, as-dense"),
    (dict(sparse=False, strategy="server", partitions=4), "only a sparse variable on the server"),
    (dict(sparse=True, strategy="allgather", alpha=Fraction(1, 7)), "1/7 of 240 rows"),
    (dict(sparse=True, strategy="server", alpha=Fraction(1, 120), partitions=4),
     "each of 4 partitions has the same whole number"),
    (dict(sparse=True, strategy="server", alpha=Fraction(3, 2)), "α = 3/2 of 240 rows"),
])
def test_refusals(wrong, said):
    with pytest.raises(ValueError, match=said):
        CostCase(**wrong)


def test_an_uneven_deal_has_no_closed_formula():
    with pytest.raises(ValueError, match="6 variables and partitions are not spread evenly over 4 ranks"):
        closed_formula(CostCase(True, "server", variables=6), 4)


def test_lines_carry_formula_and_measured_points():
    def case_of(strategy, ranks):
        return CostCase(True, strategy, alpha=Fraction(1, 2)), ranks

    line, points = lines_of_strategies(case_of, [1, 2, 4], [2], {"allgather": [16_320]})
    assert line.label == "sparse, allgather" and list(line.y) == [0, 17.28, 51.84]
    assert points.points and list(points.y) == [16.32] and points.style == line.style
