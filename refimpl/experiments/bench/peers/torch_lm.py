"""The language model as a PyTorch programmer would write it: the peer that our training step is raced against.

Eager mode; nn.LSTM with projection; embedding, softmax weight and softmax bias have sparse gradients, which are
coalesced once, before clipping. The same model as ``models.lm``: its variables can be loaded, and give the same losses.
"""

import itertools
import math

import torch
from torch import nn

from kernels.random import key_of
from models.candidates import Candidates, draw_candidates
from models.lm import LanguageModel
from refimpl.experiments.bench.peers.torch_ddp import clip

FORGET_BIAS = 1.0  # TensorFlow adds it in the cell; here it is part of the bias, which has a gradient all the same


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

        inputs, targets: (time, streams) int64.  state: (h, c), or None for zeros.
        """
        h, state = self.lstm(self.dropout(self.embedding(inputs)), state)
        h, targets = self.dropout(h).flatten(0, 1), targets.flatten()
        sampled = torch.tensor(candidates.ids, device=inputs.device)
        ids = torch.cat([targets, sampled])
        expected = log_expected_count(ids, candidates.tries, self.vocabulary)
        parts = len(targets), len(sampled)  # one look-up of both, so that there is one sparse gradient
        own_weight, weight = self.softmax_weight(ids).split(parts)
        own_bias, bias = (self.softmax_bias(ids).squeeze(1) - expected.to(h.dtype)).split(parts)
        own = (h * own_weight).sum(1) + own_bias
        others = torch.addmm(bias, h, weight.T).masked_fill(targets[:, None] == sampled, -torch.inf)
        return (torch.logaddexp(own, others.logsumexp(1)) - own).mean(), state


def log_expected_count(classes, tries: int, vocabulary: int):
    """Return what ``models.candidates.log_expected_count`` does, of a tensor, on its device: float64."""
    p = torch.log1p(1.0 / (classes.double() + 1.0)) / math.log(vocabulary + 1.0)
    return torch.log(-torch.expm1(tries * torch.log1p(-p)))


class TorchTrainer:
    """Adagrad on dense and sparse parameters, clipping by the global norm, state carried from window to window."""

    def __init__(self, model: TorchLanguageModel, learning_rate: float, clip_norm: float):
        self.model, self.clip_norm, self.state = model, clip_norm, None
        self.parameters = [p for p in model.parameters() if p.requires_grad]
        self.device = self.parameters[0].device
        self.optimizer = torch.optim.Adagrad(self.parameters, lr=learning_rate, initial_accumulator_value=1.0, eps=0.0)

    def step(self, inputs, targets, candidates: Candidates) -> float:
        """Do one training step on (time, streams) int64 NumPy arrays; return the loss."""
        inputs, targets = (torch.from_numpy(array).to(self.device) for array in (inputs, targets))
        loss, (h, c) = self.model(inputs, targets, self.state, candidates)
        self.state = h.detach(), c.detach()
        self.optimizer.zero_grad()
        loss.backward()
        clip(self.parameters, self.clip_norm)
        self.optimizer.step()
        return loss.item()


class LanguageModelTwin:
    """The model with its trainer, as benchmarks drive it, see ``peers.torch_twin``. It draws its candidates as we do.

    on: where it computes.
    """

    def __init__(self, model: LanguageModel, values: dict, options, on: str = "cpu"):
        self.trainer = TorchTrainer(TorchLanguageModel(model, values).to(on), options.learning_rate, options.clip_norm)
        self.candidates = (draw_candidates(key_of("bench", "candidates", draw), model.samples, model.vocabulary)
                           for draw in itertools.count())

    def step(self, batch, starts_epoch: bool):
        """Do a training step; the state begins anew with an epoch."""
        if starts_epoch:
            self.trainer.state = None
        self.trainer.step(batch.inputs, batch.targets, next(self.candidates))


TWIN = LanguageModelTwin
"""What ``peers.torch_twin`` makes."""
