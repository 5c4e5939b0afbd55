"""What people expect: each row of the table in docs/torch.md names the tests that show it.

A row without tests fails, and so does a word of a row that the files of its tests do not use.
"""

import re
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
PAGE = TESTS.parent / "docs/torch.md"
SHOWN = {
    "SGD, momentum, Nesterov, Adagrad, Adam, AdamW, LARS, LAMB": {
        "torch/test_optimizers.py": "test_a_training_is_pytorchs_loop",
        "torch/test_trainer.py": "test_our_own_optimizers_give_the_bits_of_train",
        "training/test_layerwise_mpi.py": "test_one_answer_by_every_way"},
    "NAdam, RMSprop, Muon, your own": {
        "torch/test_trainer.py": "test_one_microbatch_gives_the_bits_of_pytorchs_loop",
        "training/test_options.py": "test_refusals"},
    "parameter groups, no decay for biases": {
        "torch/test_optimizers.py": "test_groups_are_pytorchs",
        "torch/test_trainer.py": "test_one_microbatch_gives_the_bits_of_pytorchs_loop"},
    "`betas`, `eps`, `momentum`, `nesterov`": {
        "torch/test_optimizers.py": "test_a_training_is_pytorchs_loop",
        "training/test_options.py": "test_pytorchs_names_are_taken"},
    "a scheduler": {
        "torch/test_optimizers.py": "test_a_scheduler_is_the_rate",
        "torch/test_one_answer_mpi.py": "test_several_ranks_give_the_answer_of_one",
        "torch/test_trainer.py": "test_one_microbatch_gives_the_bits_of_pytorchs_loop",
        "training/test_options.py": "test_a_function_is_the_rate"},
    "another rate on resume": {
        "torch/test_optimizers.py": "test_a_resumed_training_has_the_groups_of_its_checkpoint",
        "torch/test_trainer.py": "test_going_on_from_a_state_dict"},
    "clipping": {
        "torch/test_one_answer_mpi.py": "test_several_ranks_give_the_answer_of_one",
        "torch/test_trainer.py": "test_rows_move_as_pytorchs_optimizers_of_sparse_gradients_move_them"},
    "gradient accumulation": {"torch/test_data.py": "test_a_batch_is_what_a_loader_gives"},
    "early stopping": {
        "torch/test_trainer.py": "test_early_stopping_and_the_best_are_the_users",
        "training/test_stop_mpi.py": "test_a_training_that_is_stopped_is_a_shorter_one"},
    "keeping the best": {
        "torch/test_back.py": "test_a_module_gets_what_was_learned",
        "torch/test_trainer.py": "test_early_stopping_and_the_best_are_the_users",
        "training/test_checkpoint.py": "test_the_best_checkpoint_is_kept"},
    "a loss per word": {"torch/test_reported.py": "test_a_loss_per_word_is_pytorchs_mean_over_the_batch"},
    "metrics of your own, parts of a loss": {"torch/test_reported.py": "test_parts_of_a_loss_stand_in_the_metrics"},
    "epochs": {"torch/test_data.py": "test_a_shuffled_loader_gives_every_item_once_an_epoch_in_another_order"},
    "a weighted sampler": {"torch/test_data.py": "test_a_sampler_draws_from_the_seed_and_the_epoch"},
    "buffers that `forward` changes, spectral norm": {
        "torch/test_optimizers.py": "test_buffers_that_a_forward_pass_changes"},
    "`num_workers`": {"torch/test_data.py": "test_workers_of_a_loader_are_not_used_and_it_says_so"},
    "the values afterwards, a `.pt` file": {
        "torch/test_back.py": "test_a_module_gets_what_was_learned",
        "torch/test_trainer.py": "test_going_on_from_a_state_dict"},
    "a run directory, resume, metrics.jsonl, bytes": {
        "torch/test_one_answer_mpi.py": "test_a_resumed_run_ends_as_one_that_was_not_interrupted",
        "torch/test_reported.py": "test_parts_of_a_loss_stand_in_the_metrics"},
}
"""Row -> file -> a test in it."""


def table() -> dict[str, str]:
    """Return expectation -> what the page says of it, with ``train`` and with ``Trainer``."""
    text = PAGE.read_text(encoding="utf-8").partition("## What people expect")[2].partition("\n## ")[0]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line.startswith("|")]
    return {name: " ".join(cells) for name, *cells in rows[2:]}


def lacking(told, shown) -> list[str]:
    """Return the tests that do not exist, and the words of a row that their files do not use."""
    texts = {file: (TESTS / file).read_text(encoding="utf-8") for file in shown}
    found = [test for file, test in shown.items() if f"def {test}(" not in texts[file]]
    for code in re.findall("`([^`]*)`", told):
        found += [word for word in re.findall(r"[A-Za-z_]{3,}", re.sub('"[^"]*"', "", code))
                  if word not in "".join(texts.values())]
    return found


def test_each_row_has_its_tests():
    assert list(table()) == list(SHOWN)


@pytest.mark.parametrize("name", SHOWN)
def test_a_rows_words_are_used_in_its_tests(name):
    assert lacking(table()[name], SHOWN[name]) == []


def test_words_and_tests_that_are_not_there_are_found():
    assert lacking("`train(…, teleport=1)`", {"torch/test_reported.py": "test_nothing"}) == ["test_nothing", "teleport"]
