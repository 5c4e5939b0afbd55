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
        c, h = _cell(values, "lstm0", word, (c, h))
        h = h @ values["lstm0/projection"]
        outputs.append(h)
    state["lstm0/c"], state["lstm0/h"] = c.detach(), h.detach()
    losses = _sampled_softmax(values, torch.cat(outputs), batch)
    return (losses * weights.flatten()).sum() / batch["normaliser"].item()


def _cell(values, name, x, state):
    """Return (c, h) of an LSTM after one word."""
    gates = torch.cat([x, state[1]], -1) @ values[f"{name}/kernel"] + values[f"{name}/bias"]
    i, j, f, o = gates.chunk(4, dim=-1)
    c = torch.sigmoid(f + FORGET_BIAS) * state[0] + torch.sigmoid(i) * torch.tanh(j)
    return c, torch.sigmoid(o) * torch.tanh(c)


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


def nmt_loss(values, batch, state, notes):
    """Return the translation model's summed, smoothed cross entropy / normaliser: one sentence pair at a time."""
    weights = batch.get("weights", torch.ones(batch["targets"].shape))
    losses = []
    for n in range(batch["inputs"].shape[1]):
        source = batch["inputs"][:, n]
        target = batch["targets"][weights[:, n] != 0, n]
        losses.append(_Translation(values, source[source >= 0]).loss(target))
    return torch.stack(losses).sum() / batch["normaliser"].item()


class _Translation:
    """One source sentence, read: (words,) -> memory (words, units), and the states that the decoder begins with."""

    START, SMOOTHING = 1, 0.1

    def __init__(self, values, source):
        self.values, units = values, values["attention/v"].shape[0]
        zero = torch.zeros(units, dtype=values["output"].dtype)
        x = functional.embedding(source, values["source_embedding"], sparse=True)
        forward, _ = self.layer("encoder/forward", x, (zero, zero))
        backward, state = self.layer("encoder/backward", x.flip(0), (zero, zero))
        h, self.states = torch.cat([forward, backward.flip(0)], 1), [state]
        while f"encoder/{len(self.states)}/kernel" in values:
            h, state = self.layer(f"encoder/{len(self.states)}", h, (zero, zero))
            self.states.append(state)
        self.memory, self.context = h, zero
        self.keys = h @ values["attention/memory"] + values["attention/bias"]
        self.scale = values["attention/v"] * values["attention/g"] / values["attention/v"].norm()

    def layer(self, name, x, state):
        """Return (h of each word, the last state)."""
        outputs = []
        for word in x:
            state = _cell(self.values, name, word, state)
            outputs.append(state[1])
        return torch.stack(outputs), state

    def loss(self, target):
        """Return the cross entropy of the target's words, each read before the next is told."""
        read = torch.cat([torch.tensor([self.START]), target[:-1]])
        outputs = [self.step(word) for word in functional.embedding(read, self.values["target_embedding"], sparse=True)]
        return functional.cross_entropy(torch.stack(outputs) @ self.values["output"], target, reduction="sum",
                                        label_smoothing=self.SMOOTHING)

    def step(self, word):
        """Return the top layer's h of one word."""
        self.states[0] = _cell(self.values, "decoder/0", torch.cat([word, self.context]), self.states[0])
        h = self.states[0][1]
        scores = torch.tanh(h @ self.values["attention/query"] + self.keys) @ self.scale
        self.context = torch.softmax(scores, 0) @ self.memory
        for n in range(1, len(self.states)):
            self.states[n] = _cell(self.values, f"decoder/{n}", torch.cat([h, self.context]), self.states[n])
            h = self.states[n][1]
        return h


def vgg_loss(values, batch, state, notes):
    """Return the VGG network's summed cross entropy / normaliser; nothing is dropped out."""
    x = batch["inputs"].permute(0, 3, 1, 2).to(values["output.weight"].dtype) / 127.5 - 1
    layers = list(dict.fromkeys(name.rpartition(".")[0] for name in values))
    for name, following in zip(layers, [*layers[1:], ""]):
        weight, bias = values[f"{name}.weight"], values[f"{name}.bias"]
        if not name.startswith("stage"):
            x = functional.linear(x.permute(0, 2, 3, 1).flatten(1) if x.dim() == 4 else x, weight, bias)
            x = x.relu() if following else x
            continue
        x = functional.conv2d(x, weight.permute(3, 2, 0, 1), bias, padding=1).relu()
        x = x if following.startswith(name.partition(".")[0]) else functional.max_pool2d(x, 2)
    return functional.cross_entropy(x, batch["targets"].long(), reduction="sum") / batch["normaliser"].item()


LOSSES = {"lm": lm_loss, "cnn": cnn_loss, "nmt": nmt_loss, "vgg": vgg_loss}
