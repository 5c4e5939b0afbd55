"""The language model as a PyTorch programmer would write it, for comparison with our training step.

Eager mode; nn.LSTM with projection; embedding, softmax weight and softmax bias have sparse gradients, which are
coalesced once, before clipping. The same model as ``models.lm``: its variables can be loaded, and give the same losses.
"""

import math
from copy import copy
from functools import partial

import torch
from torch import nn

from kernels.random import key_of
from models.candidates import Candidates, draw_candidates
from models.lm import LanguageModel
from models.workload import Workload
from refimpl.experiments.bench.peers.torch_replica import Work, adagrad

FORGET_BIAS = 1.0  # TensorFlow adds it in the cell; here it is part of the bias, whose gradient is the same


class TorchLanguageModel(nn.Module):
    """``models.lm.LanguageModel`` of one layer in PyTorch. values: name -> initial value of each of its variables."""

    def __init__(self, model: LanguageModel, values: dict):
        super().__init__()
        if len(model.layers) != 1:
            raise ValueError(f"the peer has one LSTM layer, the model {len(model.layers)}: compare a preset with one")
        self.vocabulary = model.vocabulary
        self.embedding, self.softmax_weight, self.softmax_bias = (
            nn.Embedding.from_pretrained(torch.from_numpy(values[name].copy()), freeze=False, sparse=True)
            for name in ("embedding", "softmax_weight", "softmax_bias"))
        width = self.embedding.embedding_dim
        self.lstm = nn.LSTM(width, model.hidden, proj_size=model.width if model.projected else 0,
                            dtype=self.embedding.weight.dtype)
        self.load_lstm(values, model.layers[0], width)
        self.dropout = nn.Dropout(1 - model.keep)

    @torch.no_grad()
    def load_lstm(self, values, layer, inputs):
        """Copy the LSTM's variables: TensorFlow's gates i, j, f, o are PyTorch's first, third, second and fourth."""
        kernel, bias = torch.from_numpy(values[f"{layer}/kernel"]), torch.from_numpy(values[f"{layer}/bias"])
        i, j, f, o = torch.cat([kernel, bias[None]]).chunk(4, dim=1)
        kernel = torch.cat([i, f, j, o], dim=1)
        self.lstm.weight_ih_l0.copy_(kernel[:inputs].T)
        self.lstm.weight_hh_l0.copy_(kernel[inputs:-1].T)
        self.lstm.bias_ih_l0.copy_(kernel[-1])
        self.lstm.bias_ih_l0.chunk(4)[1].add_(FORGET_BIAS)
        self.lstm.bias_hh_l0.zero_().requires_grad_(False)  # two biases would learn twice as fast
        if f"{layer}/projection" in values:
            self.lstm.weight_hr_l0.copy_(torch.from_numpy(values[f"{layer}/projection"]).T)

    def forward(self, inputs, targets, state, candidates: Candidates):
        """Return (mean sampled-softmax loss, new state).

        inputs, targets: (time, streams) int64.  state: (h, c), or None for zeros.  candidates: their ids a tensor, too.
        """
        h, state = self.lstm(self.dropout(self.embedding(inputs)), state)
        h, targets = self.dropout(h).flatten(0, 1), targets.flatten()
        sampled = candidates.ids
        ids = torch.cat([targets, sampled])
        expected = log_expected_count(ids, candidates.tries, self.vocabulary)
        parts = len(targets), len(sampled)  # one look-up of both, so that there is one sparse gradient
        own_weight, weight = self.softmax_weight(ids).split(parts)
        own_bias, bias = (self.softmax_bias(ids).squeeze(1) - expected.to(h.dtype)).split(parts)
        own = (h * own_weight).sum(1) + own_bias
        others = torch.addmm(bias, h, weight.T).masked_fill(targets[:, None] == sampled, -torch.inf)
        return (torch.logaddexp(own, others.logsumexp(1)) - own).mean(), state


def log_expected_count(classes, tries: int, vocabulary: int):
    """Return ``models.candidates.log_expected_count`` of a tensor, on its device: float64."""
    p = torch.log1p(1.0 / (classes.double() + 1.0)) / math.log(vocabulary + 1.0)
    return torch.log(-torch.expm1(tries * torch.log1p(-p)))


class Drawn:
    """Text whose microbatches have candidates for the softmax: inputs are (words, candidates, tries). Local."""

    def __init__(self, data, samples: int, vocabulary: int):
        self.data, self.samples, self.vocabulary = data, samples, vocabulary
        self.microbatches, self.fingerprint = data.microbatches, data.fingerprint
        self.examples, self.starts_epoch = data.examples, data.starts_epoch

    def microbatch(self, step: int, index: int):
        batch = copy(self.data.microbatch(step, index))
        drawn = draw_candidates(self.key(step, index), self.samples, self.vocabulary)
        batch.inputs = (batch.inputs, drawn.ids, drawn.tries)
        return batch

    def key(self, step: int, index: int) -> int:
        """Return the key of a microbatch's candidates. Local."""
        return key_of("bench", "candidates", step, index)


def work(workload: Workload) -> Work:
    """Return how PyTorch trains a workload of ours. Local."""
    model, options = workload.make_model(), workload.entry.optimizer

    def loss(module, batch):
        words, ids, tries = batch.inputs
        state = (batch.state["h"], batch.state["c"]) if batch.state else None
        mean, (h, c) = module(words, batch.targets, state, Candidates(ids, tries, model.vocabulary))
        batch.state.update(h=h, c=c)
        return mean * batch.targets.numel()

    return Work(
        str(workload), workload.entry.unit, lambda: TorchLanguageModel(
            model, {v.name: v.initial_value(0) for v in model.variables}), loss,
        lambda microbatches, **more: Drawn(workload.make_data(microbatches, **more), model.samples, model.vocabulary),
        options, partial(adagrad, options["learning_rate"]))
