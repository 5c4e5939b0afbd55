"""The golden traces' models in plain PyTorch, differentiated by autograd: values and a microbatch in, loss out.

They know nothing of our code: a trace names the variables and holds every input. values: name -> parameter.
batch: name -> tensor.
"""

import torch
from torch.nn import functional

FORGET_BIAS, EPSILON = 1.0, 1e-5


def lm_loss(values, batch, state, notes):
    """Return the language model's summed loss / normaliser: LSTM with projection, then a sampled softmax.

    state: "lstm0/c" and "lstm0/h" -> (streams, width); afterwards those of the window's end.
    """
    weights = batch.get("weights", torch.ones(batch["targets"].shape)).to(values["softmax_weight"].dtype)
    x = functional.embedding(batch["inputs"], values["embedding"], sparse=True) * (weights != 0)[:, :, None]
    c, h, outputs = state["lstm0/c"], state["lstm0/h"], []
    for word in x:
        gates = torch.cat([word, h], 1) @ values["lstm0/kernel"] + values["lstm0/bias"]
        i, j, f, o = gates.chunk(4, dim=1)
        c = torch.sigmoid(f + FORGET_BIAS) * c + torch.sigmoid(i) * torch.tanh(j)
        h = (torch.sigmoid(o) * torch.tanh(c)) @ values["lstm0/projection"]
        outputs.append(h)
    state["lstm0/c"], state["lstm0/h"] = c.detach(), h.detach()
    losses = _sampled_softmax(values, torch.cat(outputs), batch)
    return (losses * weights.flatten()).sum() / batch["normaliser"].item()


def _sampled_softmax(values, h, batch):
    """Return each word's loss. Candidates are shared; one that is the target itself is left out."""
    targets, sampled = batch["targets"].flatten(), batch["candidates"]
    ids, parts = torch.cat([targets, sampled]), (len(targets), len(sampled))
    weight, bias = (functional.embedding(ids, values[f"softmax_{what}"], sparse=True) for what in ("weight", "bias"))
    counts = torch.cat([batch["target_log_counts"].flatten(), batch["candidate_log_counts"]]).to(h.dtype)
    (own, others), (own_bias, bias) = weight.split(parts), (bias[:, 0] - counts).split(parts)
    own = (h * own).sum(1) + own_bias
    others = torch.addmm(bias, h, others.T).masked_fill(targets[:, None] == sampled, -torch.inf)
    return torch.logaddexp(own, others.logsumexp(1)) - own


def cnn_loss(values, batch, state, notes):
    """Return the residual network's summed cross entropy / normaliser.

    notes: gets name -> this microbatch's share of each running statistic.
    """
    net = _Net(values, notes, len(batch["inputs"]) / batch["normaliser"].item())
    x = batch["inputs"].permute(0, 3, 1, 2).to(values["head.weight"].dtype) / 127.5 - 1
    x = net.norm(net.conv(x, "stem"), "stem_norm").relu()
    for name in sorted({".".join(v.split(".")[:2]) for v in values if v.startswith("stage")}):
        x = net.block(x, name)
    logits = x.mean(dim=(2, 3)) @ values["head.weight"] + values["head.bias"]
    return functional.cross_entropy(logits, batch["targets"].long(), reduction="sum") / batch["normaliser"].item()


class _Net:
    def __init__(self, values, notes, share):
        self.values, self.notes, self.share = values, notes, share

    def conv(self, x, name, stride=1):
        weight = self.values[f"{name}.weight"].permute(3, 2, 0, 1)  # ours are (height, width, inputs, outputs)
        return functional.conv2d(x, weight, stride=stride, padding=weight.shape[-1] // 2)

    def norm(self, x, name):
        variance, mean = torch.var_mean(x.detach(), dim=(0, 2, 3), correction=0)
        self.notes |= {f"{name}.mean": mean * self.share, f"{name}.variance": variance * self.share}
        return functional.batch_norm(x, None, None, self.values[f"{name}.scale"], self.values[f"{name}.offset"],
                                     training=True, eps=EPSILON)

    def block(self, x, name):
        projects = f"{name}.shortcut.weight" in self.values
        stride = 2 if projects else 1
        y = self.norm(self.conv(x, f"{name}.conv1", stride), f"{name}.norm1").relu()
        y = self.norm(self.conv(y, f"{name}.conv2"), f"{name}.norm2")
        if projects:
            x = self.norm(self.conv(x, f"{name}.shortcut", stride), f"{name}.shortcut_norm")
        return (y + x).relu()


LOSSES = {"lm": lm_loss, "cnn": cnn_loss}
