"""What a training will touch, looked up in advance."""

import numpy as np
import pytest

from kernels.random import key_of
from models import Batch, Variable
from models.data import TokenStreams
from models.data.text.synthetic import load_synthetic
from models.lm import PRESETS, LanguageModel
from refimpl.gradients import cover, leaves_of
from refimpl.plan.sample import nodes_of, take_sample
from refimpl.transport.machines import in_blocks


class Listed:
    """Model and data at once: steps[s][v] are the rows that microbatch v of step s needs; None: no examples."""

    variables = [Variable("e", (10, 2), sparse=True), Variable("w", (3,))]

    def __init__(self, steps):
        self.steps, self.microbatches, self.steps_per_epoch = steps, len(steps[0]), len(steps)

    def microbatch(self, step, index):
        rows = self.steps[step][index]
        return None if rows is None else Batch(np.array(rows, np.int64), None)

    def rows_needed(self, batch):
        return {"e": batch.inputs}


FOUR = Listed([[[0, 1], [1, 2], [5], None], [[3], [], [3, 4, 5, 6], [9]]])


def test_alpha_by_hand():
    sample = take_sample(FOUR, FOUR, 0)
    assert sample.steps == (0, 1) and sample.rows == {"e": 10}
    assert sample.alpha("e", 4) == pytest.approx(np.mean([2, 2, 1, 0, 1, 0, 4, 1]) / 10)
    assert sample.alpha("e", 2) == pytest.approx(np.mean([3, 1, 1, 5]) / 10)  # unions of two microbatches
    assert sample.alpha_machine("e", in_blocks(4, 2)) == sample.alpha("e", 2)
    assert sample.alphas("e", [range(4)]) == pytest.approx([0.4, 0.5])


def test_popularity_counts_those_who_ask():
    sample = take_sample(FOUR, FOUR, 0)
    assert sample.popularity("e", in_blocks(4, 2)).tolist() == [1, 1, 1, 2, 1, 2, 1, 0, 0, 1]
    assert sample.popularity("e", in_blocks(4, 2), local_aggregation=False).tolist() == [1, 2, 1, 2, 1, 2, 1, 0, 0, 1]


def test_machines_may_have_ranks_that_do_not_follow_each_other():
    sample = take_sample(FOUR, FOUR, 0)
    first, second = sample.of_groups(0, "e", [[0, 2], [1, 3]])
    assert first.tolist() == [0, 1, 5] and second.tolist() == [1, 2]
    assert [list(node) for node in nodes_of([0, 1, 4], 6)] == [[0, 1], [4]]


def test_pulled_and_pushed_are_what_predict_step_wants():
    sample = take_sample(FOUR, FOUR, 0)
    assert [ids.tolist() for ids in sample.pulled(0, "e", 3)] == [[0, 1], [1, 2], [5]]
    pushed = sample.pushed(1, "e", 3)  # rank 2 has microbatches 2 and 3, one node
    assert [[ids.tolist() for ids in nodes] for nodes in pushed] == [[[3]], [[]], [[3, 4, 5, 6, 9]]]
    for ranks in (1, 2, 3, 4):
        assert [len(nodes) for nodes in sample.pushed(0, "e", ranks)] == [
            len(cover(leaves_of(r, ranks, 4))) for r in range(ranks)]


def test_the_sample_is_what_the_training_will_draw():
    """Candidates come from the microbatch's key: the rows of a sample are those of the training's own step."""
    model = LanguageModel(**PRESETS["tiny"])
    data = TokenStreams(load_synthetic("50", tokens=800, heldout_tokens=0).train, 4, 2, 4)
    sample = take_sample(model, data, 7, steps=3)
    assert sample.steps == tuple(i * data.steps_per_epoch // 3 for i in range(3))
    batch = data.microbatch(sample.steps[1], 2)
    batch.key = key_of(7, "microbatch", sample.steps[1], 2)
    for name, ids in model.rows_needed(batch).items():
        assert np.array_equal(sample.touched[1][name][2], ids)
    assert 0 < sample.alpha("embedding", 4) <= sample.alpha_machine("embedding", in_blocks(4, 2)) <= 1


def test_no_examples_and_no_sparse_variables():
    empty = TokenStreams(np.zeros(1, np.int64), 2, 1, 4)
    with pytest.raises(ValueError, match="the data has no step"):
        take_sample(LanguageModel(**PRESETS["tiny"]), empty, 0)
    dense = Listed([[[1]]])
    dense.variables = [Variable("w", (3,))]
    assert take_sample(dense, dense, 0).steps == ()


def test_what_is_asked_is_checked():
    def refuse(needs):
        raise ValueError(f"refused {sorted(needs)}")

    with pytest.raises(ValueError, match="refused"):
        take_sample(FOUR, FOUR, 0, check=refuse)
