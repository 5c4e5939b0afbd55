"""Modules that nobody here wrote, held to a plain loop: transformers' with gradient checkpointing, a DeepFM.

`make test-all FOREIGN=1` installs their packages.
"""

import pytest
import torch
from plain_loop import hold_to_plain_loop
from torch.nn import functional
from torch.utils.data import Dataset

from refimpl.torch import TorchData

pytestmark = pytest.mark.thorough
WORDS, LENGTH = 30, 7


class Texts(Dataset):
    """n texts, and of each a class."""

    def __init__(self, count=32):
        drawn = torch.Generator().manual_seed(3)
        self.texts = torch.randint(1, WORDS, (count, LENGTH), generator=drawn)
        self.texts[::3, LENGTH - 2:] = 0  # padding

    def __len__(self):
        return len(self.texts)

    def __getitem__(self, place):
        return self.texts[place], int(self.texts[place].sum() % 2)


def data(microbatches=2):
    return TorchData(Texts(), microbatches, 8 // microbatches, seed=1)


def gpt2(**checkpointing):
    transformers = pytest.importorskip("transformers", reason="the extra foreign is not installed")
    torch.manual_seed(1)
    module = transformers.GPT2LMHeadModel(transformers.GPT2Config(
        vocab_size=WORDS, n_positions=LENGTH, n_embd=8, n_layer=3, n_head=2, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0,
        use_cache=False)).double().train()
    if checkpointing:
        module.gradient_checkpointing_enable(checkpointing)
    return module


def next_words(module, batch):
    scores = module(input_ids=batch.inputs).logits
    return functional.cross_entropy(scores[:, :-1].flatten(0, 1), batch.inputs[:, 1:].flatten(), reduction="sum") / 6


@pytest.mark.parametrize("reentrant", [None, False, True])
def test_gpt2(reentrant):
    """Its words are tied to the output layer, and so dense; its positions are a table."""
    checkpointing = {} if reentrant is None else {"use_reentrant": reentrant}
    found = hold_to_plain_loop(lambda: gpt2(**checkpointing), next_words, data())
    assert found[-1] < found[0]


def bert():
    transformers = pytest.importorskip("transformers", reason="the extra foreign is not installed")
    torch.manual_seed(1)
    module = transformers.BertForSequenceClassification(transformers.BertConfig(
        vocab_size=WORDS, hidden_size=8, num_hidden_layers=2, num_attention_heads=2, intermediate_size=16,
        max_position_embeddings=LENGTH, hidden_dropout_prob=0, attention_probs_dropout_prob=0)).double().train()
    module.gradient_checkpointing_enable()
    return module


def classes(module, batch):
    scores = module(input_ids=batch.inputs, attention_mask=(batch.inputs != 0).long()).logits
    return functional.cross_entropy(scores, batch.targets, reduction="sum")


def test_bert():
    hold_to_plain_loop(bert, classes, data())


def deep_factorization_machine():
    models = pytest.importorskip("torchfm.model.dfm", reason="the extra foreign is not installed")
    torch.manual_seed(1)
    return models.DeepFactorizationMachineModel([WORDS] * LENGTH, 4, (6, 5), dropout=0.0).double().train()


def clicks(module, batch):
    return functional.binary_cross_entropy(module(batch.inputs), batch.targets.double(), reduction="sum")


def test_deep_factorization_machine():
    """Two tables, in modules that add offsets, and batch norm: a plain loop moves its statistics in each microbatch."""
    hold_to_plain_loop(deep_factorization_machine, clicks, data(1))
