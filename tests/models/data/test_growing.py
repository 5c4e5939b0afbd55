"""Batches that grow: their sizes, every example once in a stage's epoch, and where growth ends."""

import numpy as np
import pytest

from models.data.growing import GrowingBatches
from models.data.examples import Examples
from models.data.protocol import Data
from models.recipe import Recipe, build


def growing(count=40, factor=2, every=3):
    numbers = np.arange(count)
    return GrowingBatches(lambda times: Examples(numbers, numbers, 2, 2 * times, seed=1), factor, every)


def test_microbatches_double_after_each_stage_until_a_step_holds_everything():
    data = growing()
    assert isinstance(data, Data)
    assert [data.examples(step) for step in range(15)] == [4] * 3 + [8] * 3 + [16, 16, 8] + [32, 8, 32] + [40] * 3
    assert [len(data.microbatch(step, 1).inputs) for step in (0, 3, 6, 9, 12)] == [2, 4, 8, 16, 8]
    assert [step for step in range(13) if data.starts_epoch(step)] == [0, 3, 6, 9, 11, 12]


def test_a_stage_that_lasts_uses_every_example_once_in_an_epoch():
    data = growing(every=5)
    seen = [data.microbatch(step, v).inputs for step in range(5, 10) for v in (0, 1)]
    assert sorted(np.concatenate(seen)) == list(range(40))


def test_another_growth_is_another_fingerprint():
    assert len({growing().fingerprint, growing(factor=3).fingerprint, growing(every=4).fingerprint,
                growing(count=41).fingerprint}) == 4


@pytest.mark.parametrize("model, data", [("lm", "shakespeare"), ("cnn", "digits")])
def test_a_recipe_grows(model, data):
    recipe = Recipe(model, data, "tiny", microbatches=4, microbatch_size=2, grow_batch=(3, 10))
    _, found, heldout = build(Recipe.from_json(recipe.to_json()), 0)
    assert found.examples(10) == 3 * found.examples(0) and not isinstance(heldout, GrowingBatches)


@pytest.mark.parametrize("factor, every", [(1, 5), (2, 0)])
def test_what_does_not_grow_is_refused(factor, every):
    with pytest.raises(ValueError, match="give 2 or more, and 1 or more"):
        growing(factor=factor, every=every)


def test_data_of_your_own_are_refused():
    with pytest.raises(ValueError, match="--grow-batch cuts the data of refimpl"):
        build(Recipe("models.cnn:ConvNet", "digits", grow_batch=(2, 5)), 0)
