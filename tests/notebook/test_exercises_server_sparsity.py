"""The checks of notebooks 2 and 3 tell right from wrong, with a hint that fits the mistake."""

import pytest

from refimpl.notebook.exercises.parameter_server import bytes_of, check_deal, check_factor, check_rank_2
from refimpl.notebook.exercises.sparsity import check_allgather_bytes, check_expected, check_server_bytes


def deal(loads, ranks, key=None):
    """Heaviest first, or by another key."""
    owners, total = [0] * len(loads), [0] * ranks
    for partition in sorted(range(len(loads)), key=key or (lambda p: -loads[p])):
        owners[partition] = total.index(min(total))
        total[owners[partition]] += loads[partition]
    return owners


def server_bytes(alpha, w, ranks):
    return 4 * alpha * w * (ranks - 1) / ranks


def allgather_bytes(together, w, ranks):
    return 2 * together * w * (ranks - 1) / ranks


@pytest.mark.parametrize("check, answers", [
    (check_rank_2, (68, 52)), (check_factor, (24,)), (check_deal, (deal,)),
    (check_expected, (1.75,)), (check_server_bytes, (server_bytes,)),
    (check_allgather_bytes, (allgather_bytes,))])
def test_right_answers(check, answers):
    assert check(*answers).right is True


@pytest.mark.parametrize("check, answers", [
    (check_rank_2, (..., ...)), (check_rank_2, (68, ...)), (check_factor, (...,)),
    (check_deal, (lambda loads, ranks: ...,)), (check_expected, (...,)),
    (check_server_bytes, (lambda *all_of_them: ...,)), (check_allgather_bytes, (lambda *all_of_them: ...,))])
def test_no_answer_yet(check, answers):
    assert check(*answers).right is None


@pytest.mark.parametrize("check, answers, hint", [
    (check_rank_2, (52, 68), "wrong way round"),
    (check_rank_2, (28, 32), "that is the pull"),
    (check_rank_2, (52, 44), "row numbers travel twice"),
    (check_rank_2, (0, 0), "count by message"),
    (check_factor, (48,), "also a worker"),
    (check_factor, (2,), "the numbers in front"),
    (check_factor, (7,), "and cancel"),
    (check_deal, (lambda loads, ranks: [p % ranks for p in range(len(loads))],), "heaviest partition first"),
    (check_deal, (lambda loads, ranks: deal(loads, ranks, key=lambda p: p),), "deal([1, 1, 1, 1, 1, 1, 3], 3)"),
    (check_deal, (lambda loads, ranks: [0],), "1 owners for 8 partitions"),
    (check_deal, (lambda loads, ranks: [ranks] * len(loads),), "ranks are 0 to 1"),
    (check_deal, (lambda loads: [],), "cannot be checked"),
    (check_expected, (0.25,), "how many words are missed"),
    (check_expected, (2,), "often, not always"),
    (check_expected, (1,), "all miss the first word"),
    (check_server_bytes, (lambda a, w, n: 2 * a * w * (n - 1) / n,), "one direction"),
    (check_server_bytes, (lambda a, w, n: 2 * a * w * (n - 1),), "the owner of all of it"),
    (check_server_bytes, (lambda a, w, n: 4 * a * w,), "never leaves it"),
    (check_server_bytes, (lambda a, w, n: 4 * w * (n - 1) / n,), "only touched rows"),
    (check_server_bytes, (lambda a, w, n: 2 * a * w,), "serves too"),
    (check_server_bytes, (lambda a, w, n: w,), "a step's ledger shows"),
    (check_allgather_bytes, (lambda t, w, n: 2 * t * w * (n - 1),), "touch them together"),
    (check_allgather_bytes, (lambda t, w, n: t * w * (n - 1) / n,), "one direction"),
    (check_allgather_bytes, (lambda t, w, n: 2 * t * w,), "no message to itself"),
    (check_allgather_bytes, (lambda t, w, n: 2 * t * w / n,), "each of N - 1 others"),
    (check_allgather_bytes, (lambda t, w, n: 4 * t * w * (n - 1) / n**2,), "that is the server"),
    (check_allgather_bytes, (lambda t, w, n: w,), "allgather_bytes(1/2, 12288, 4) returned 12288"),
])
def test_wrong_answers_get_a_hint(check, answers, hint):
    verdict = check(*answers)
    assert verdict.right is False and hint in verdict.why


def test_the_notebooks_worked_example():
    assert {direction: sum(each.values()) for direction, each in bytes_of(1).items()} == {"sent": 52, "received": 68}
    assert sum(sum(bytes_of(r)["sent"].values()) for r in range(4)) == sum(
        sum(bytes_of(r)["received"].values()) for r in range(4))
