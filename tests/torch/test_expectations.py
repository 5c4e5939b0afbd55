"""What people expect: each row of the table in docs/torch.md names the tests that show it.

A row without tests fails, and so does a word of a row that the files of its tests do not use.
"""

import re
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
PAGE = TESTS.parent / "docs/torch.md"
SHOWN = {
    "SGD, momentum, Nesterov, Adagrad, Adam, AdamW, LARS, LAMB": [
        "test_a_training_is_pytorchs_loop", "test_our_own_optimizers_give_the_bits_of_train",
        "test_one_answer_by_every_way"],
    "NAdam, RMSprop, Muon, an optimizer of your own": [
        "test_one_microbatch_gives_the_bits_of_pytorchs_loop", "test_another_frameworks_words_are_refused_with_ours"],
    "parameter groups, no decay for biases": [
        "test_groups_are_pytorchs", "test_one_microbatch_gives_the_bits_of_pytorchs_loop"],
    "`betas`, `eps`, `momentum`, `nesterov`": ["test_a_training_is_pytorchs_loop", "test_pytorchs_names_are_taken"],
    "a scheduler": [
        "test_a_scheduler_is_the_rate", "test_several_ranks_give_the_answer_of_one",
        "test_one_microbatch_gives_the_bits_of_pytorchs_loop", "test_a_function_is_the_rate"],
    "another rate on resume": [
        "test_a_resumed_training_has_the_groups_of_its_checkpoint", "test_going_on_from_a_state_dict"],
    "clipping": [
        "test_several_ranks_give_the_answer_of_one",
        "test_rows_move_as_pytorchs_optimizers_of_sparse_gradients_move_them"],
    "gradient accumulation": ["test_a_batch_is_what_a_loader_gives"],
    "early stopping": [
        "test_early_stopping_and_the_best_are_the_users", "test_a_training_that_is_stopped_is_a_shorter_one"],
    "keeping the best": [
        "test_a_module_gets_what_was_learned", "test_early_stopping_and_the_best_are_the_users",
        "test_the_best_checkpoint_is_kept"],
    "a loss per word": ["test_a_loss_per_word_is_pytorchs_mean_over_the_batch"],
    "metrics of your own, parts of a loss": ["test_parts_of_a_loss_stand_in_the_metrics"],
    "epochs": ["test_a_shuffled_loader_gives_every_item_once_an_epoch_in_another_order"],
    "a weighted sampler": ["test_a_sampler_draws_from_the_seed_and_the_epoch"],
    "buffers that `forward` changes, spectral norm": ["test_buffers_that_a_forward_pass_changes"],
    "`torch.autocast`": ["test_autocast_and_compile_give_the_bits_of_pytorchs_loop"],
    "`torch.compile`": ["test_autocast_and_compile_give_the_bits_of_pytorchs_loop"],
    "`num_workers`": ["test_workers_of_a_loader_are_not_used_and_it_says_so"],
    "the values afterwards, a `.pt` file": ["test_a_module_gets_what_was_learned", "test_going_on_from_a_state_dict"],
    "a run directory, resume, metrics.jsonl, bytes": [
        "test_a_resumed_run_ends_as_one_that_was_not_interrupted", "test_going_on_from_a_state_dict",
        "test_parts_of_a_loss_stand_in_the_metrics"],
}
"""Row -> tests that show it, wherever they stand."""


def table() -> dict[str, str]:
    """Return expectation -> what the page says of it, with ``train`` and with ``Trainer``."""
    text = PAGE.read_text(encoding="utf-8").partition("## What people expect")[2].partition("\n## ")[0]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line.startswith("|")]
    return {name: " ".join(cells) for name, *cells in rows[2:]}


def lacking(told, shown) -> list[str]:
    """Return the tests that do not exist, and the words of a row that their files do not use."""
    texts = [path.read_text(encoding="utf-8") for path in TESTS.glob("*/test_*.py")]
    files = {test: "".join(text for text in texts if f"def {test}(" in text) for test in shown}
    found, used = [test for test, text in files.items() if not text], "".join(files.values())
    for code in re.findall("`([^`]*)`", told):
        found += [word for word in re.findall(r"[A-Za-z_]{3,}", re.sub('"[^"]*"', "", code)) if word not in used]
    return found


def test_each_row_has_its_tests():
    assert list(table()) == list(SHOWN)


@pytest.mark.parametrize("name", SHOWN)
def test_a_rows_words_are_used_in_its_tests(name):
    assert lacking(table()[name], SHOWN[name]) == []


def test_words_and_tests_that_are_not_there_are_found():
    assert lacking("`train(…, warp=1)`", ["test_nothing", "test_early_stopping_and_the_best_are_the_users"]) == [
        "test_nothing", "warp"]
