"""The checks of notebook 8 tell right from wrong, with a hint that fits the mistake."""

import pytest

from models.nmt import PRESETS, TranslationModel
from refimpl.notebook.exercises.translation import DENSE, ROWS, SPARSE, check_even, check_most

PARTS = DENSE / (DENSE + SPARSE), SPARSE / (DENSE + SPARSE)


def test_the_numbers_are_the_papers():
    model = TranslationModel(**PRESETS["paper"])
    assert [sum(v.size for v in model.variables if v.sparse == sparse) for sparse in (False, True)] == [DENSE, SPARSE]
    assert model.vocabularies == (ROWS, ROWS)


@pytest.mark.parametrize("check, answer", [(check_even, 0.125), (check_most, PARTS[0] + PARTS[1] * 128 * 51 / ROWS)])
def test_right_answers(check, answer):
    assert check(answer).right is True and check(...).right is None


@pytest.mark.parametrize("check, answer, hint", [
    (check_even, 1, "add up to 1"), (check_even, 0.5, "eight equal weights"),
    (check_most, 128 * 51 / ROWS, "of one table"), (check_most, PARTS[1] * 128 * 51 / ROWS, "dense elements are"),
    (check_most, 1.0, "at most 128 sentences")])
def test_hints(check, answer, hint):
    verdict = check(answer)
    assert verdict.right is False and hint in verdict.why
