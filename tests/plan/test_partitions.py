"""Another number of partitions: what each rank then owns, and that nothing else changes."""

from models import Variable
from refimpl.plan import make_plan
from refimpl.plan.balance import owned_bytes
from refimpl.plan.make import with_partitions

VARIABLES = [Variable("words", (23, 3), sparse=True), Variable("weight", (4, 4)),
             Variable("bias", (23, 1), sparse=True)]


def test_bytes_owned():
    plan = make_plan(VARIABLES, "hybrid", 3, 8, partitions=1)
    spread = with_partitions(plan, VARIABLES, 3)
    row = 3 * 4 + 4
    assert owned_bytes(plan, VARIABLES, 2).sum() == owned_bytes(spread, VARIABLES, 2).sum() == 2 * 23 * row
    assert sorted(owned_bytes(spread, VARIABLES, 1).tolist()) == [7 * row, 8 * row, 8 * row]


def test_another_number_of_partitions_changes_nothing_else():
    plan = make_plan(VARIABLES, "hybrid", 4, 8, scheme="interleaved", machines=((0, 1), (2, 3)))
    again = with_partitions(plan, VARIABLES, 7)
    assert with_partitions(again, VARIABLES, 4) == plan
    assert [len(strategy.owners) for strategy in again.strategies.values()] == [7, 0, 7]
    assert again.strategies["words"].scheme == "interleaved"
