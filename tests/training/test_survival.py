"""What living ranks decide when others die, and how a step is undone: without MPI."""

import numpy as np
import pytest

from models import Variable
from refimpl.server import ReducedGradient, Shard
from refimpl.training.options import Options
from refimpl.training.survival.decisions import dealt_anew, givers, mesh_of, partner_of, rows_of
from refimpl.training.survival.session import SurvivingSession
from refimpl.training.survival.undo import Undo


@pytest.mark.parametrize("machines, partners", [
    (((0,),), [0]),  # alone
    (((0, 1, 2),), [1, 2, 0]),
    (((0, 1), (2, 3)), [2, 3, 0, 1]),  # on the other machine
    (((0, 1, 2), (3,)), [3, 3, 3, 0]),
    (((0,), (1, 2), (3,)), [1, 3, 3, 0]),
    (((0, 2), (1, 3)), [1, 0, 3, 2]),
], ids=["alone", "one machine", "two machines", "unequal", "three", "odd and even"])
def test_a_partner_is_on_another_machine_if_there_is_one(machines, partners):
    assert [partner_of(rank, machines) for rank in range(len(partners))] == partners


def test_each_keeps_its_microbatches_and_those_of_the_dead_go_to_whom_has_fewest():
    assert dealt_anew([[0, 1], [2, 3], [4, 5], [6, 7]], [0, 2, 3]) == [[0, 1, 2], [3, 4, 5], [6, 7]]
    assert dealt_anew([[0, 1, 2], [3, 4, 5], [6, 7]], [1, 2]) == [[1, 3, 4, 5], [0, 2, 6, 7]]
    assert dealt_anew([[0], [1], []], [2]) == [[0, 1]]


@pytest.mark.parametrize("members, ranks, microbatches, mesh", [
    (2, 2, 12, "1x2"), (2, 4, 12, "2x2"), (4, 6, 12, "3x2"), (6, 9, 18, "3x3"),
    (2, 3, 12, None),  # no groups of 2
    (2, 4, 10, None),  # 4 ranks cannot have equally many of 10 microbatches
    (1, 3, 12, None), (4, 1, 12, None),
])
def test_the_living_form_the_largest_groups_that_divide_the_old_ones(members, ranks, microbatches, mesh):
    assert mesh_of(members, ranks, microbatches) == mesh


def test_rows_are_taken_from_oneself_or_the_lowest_rank_that_has_them():
    held = [rows_of([range(0, 4), range(8, 10)], 10), rows_of([range(2, 8, 2), range(8, 10)], 10)]
    wanted = [rows_of([range(0, 10, 2)], 10), rows_of([range(1, 10, 2)], 10)]
    found = givers(10, held, wanted)
    assert found[0].tolist() == [0, 0, 1, 1, 0]  # rows 0 2 4 6 8: it has 2 and 8 itself
    assert found[1].tolist() == [0, 0, -1, -1, 1]  # rows 1 3 5 7 9: nobody has 5 and 7
    assert rows_of(None, 3).tolist() == [0, 1, 2]


def shards():
    """Return a table of 6 rows with a slot, and a dense variable without."""
    table = Shard(Variable("table", (6, 2), sparse=True), np.arange(12.0).reshape(6, 2), {"sum": np.zeros((6, 2))})
    return table, Shard(Variable("weight", (3,)), np.arange(3.0))


def step(undo, table, weight, ids):
    """Change some rows, their slot and all of the dense variable, as an update does."""
    undo.note([ReducedGradient(table, np.array(ids[:1]), None, True), ReducedGradient(weight, None, None, True),
               ReducedGradient(table, np.array(ids[1:], np.int64), None, True)])
    table.values[ids] += 1
    table.state["sum"][ids] += 2
    weight.values += 3


def test_all_steps_since_the_last_commit_are_undone():
    undo, (table, weight) = Undo(), shards()
    step(undo, table, weight, [5])
    undo.commit()
    committed = [array.copy() for array in (table.values, table.state["sum"], weight.values)]
    for ids in ([1, 3], [3, 4], [1]):
        step(undo, table, weight, ids)
    undo.roll_back()
    for before, now in zip(committed, (table.values, table.state["sum"], weight.values)):
        assert (before == now).all()
    step(undo, table, weight, [2])
    undo.roll_back()
    assert (table.values == committed[0]).all() and (weight.values == committed[2]).all()


@pytest.mark.parametrize("options, named", [
    ({"consistency": "asynchronous", "architecture": "ps"}, "--consistency asynchronous"),
    ({"allreduce": "ring"}, "--allreduce ring"), ({"device": "cuda"}, "--device cuda"), ({"plan": {"ranks": 2}}, "--plan"),
    ({"search_partitions": True}, "--search-partitions"), ({"codec": {"dense": "integers:8"}}, "--codec integers"),
    ({"codec": {"dense": "bf16/fp16"}, "architecture": "auto"}, "a choice of codecs"),
    ({"codec": {"dense": "topk"}}, "--codec topk"), ({"precision": "bf16"}, "--precision bf16"),
    ({"channel": "auto"}, "--channel auto"), ({}, "--trace"),
])
def test_what_does_not_go_with_survival_is_refused_by_name(options, named):
    with pytest.raises(ValueError, match=f"^--survive cannot be used with {named}.*: "):
        SurvivingSession(None, None, options=Options(**options), trace=not options)._check()
