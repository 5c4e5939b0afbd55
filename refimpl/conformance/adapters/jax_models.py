"""The golden traces' models in plain JAX: values, a microbatch and the carried state in, (loss, (state, notes)) out.

They know nothing of our code: a trace names the variables and holds every input. values: name -> parameter.
notes: name -> this microbatch's share of each running statistic. Another layout than PyTorch's: images are (n, height,
width, channels).
"""

import jax
import jax.numpy as jnp

FORGET_BIAS, EPSILON = 1.0, 1e-5
START, SMOOTHING = 1, 0.1
"""Of nmt: the number of <s>, and the part of a label that all words share."""


def lm_loss(values, batch, state):
    """Return the language model's summed loss / normaliser: LSTM with projection, then a sampled softmax."""
    dtype = values["embedding"].dtype
    weights = batch.get("weights", jnp.ones(batch["targets"].shape, dtype))

    def step(state, word):
        c, h = _cell(values, "lstm0", word, state)
        h = h @ values["lstm0/projection"]
        return (c, h), h

    x = values["embedding"][batch["inputs"]] * (weights != 0)[..., None]
    (c, h), outputs = jax.lax.scan(step, (state["lstm0/c"], state["lstm0/h"]), x)
    losses = _sampled_softmax(values, outputs.reshape(-1, h.shape[1]), batch)
    return (losses * weights.ravel()).sum() / batch["normaliser"], ({"lstm0/c": c, "lstm0/h": h}, {})


def _cell(values, name, x, state):
    """Return (c, h) of an LSTM after one word."""
    gates = jnp.concatenate([x, state[1]], -1) @ values[f"{name}/kernel"] + values[f"{name}/bias"]
    i, j, f, o = jnp.split(gates, 4, axis=-1)
    c = jax.nn.sigmoid(f + FORGET_BIAS) * state[0] + jax.nn.sigmoid(i) * jnp.tanh(j)
    return c, jax.nn.sigmoid(o) * jnp.tanh(c)


def _sampled_softmax(values, h, batch):
    """Return each word's loss. Candidates are shared; one that is the target itself is left out."""
    targets, sampled = batch["targets"].ravel(), batch["candidates"]
    weight, bias = values["softmax_weight"], values["softmax_bias"][:, 0]
    own = (h * weight[targets]).sum(1) + bias[targets] - batch["target_log_counts"].ravel()
    others = h @ weight[sampled].T + bias[sampled] - batch["candidate_log_counts"]
    others = jnp.where(targets[:, None] == sampled, -jnp.inf, others)
    return jnp.logaddexp(own, jax.nn.logsumexp(others, axis=1)) - own


def cnn_loss(values, batch, state):
    """Return the residual network's summed cross entropy / normaliser."""
    notes, share = {}, len(batch["inputs"]) / batch["normaliser"]

    def norm(x, name):
        mean, variance = x.mean((0, 1, 2)), x.var((0, 1, 2))
        notes.update({f"{name}.mean": mean * share, f"{name}.variance": variance * share})
        return (x - mean) / jnp.sqrt(variance + EPSILON) * values[f"{name}.scale"] + values[f"{name}.offset"]

    x = _images(batch, values["head.weight"])
    x = jax.nn.relu(norm(_conv(x, values["stem.weight"]), "stem_norm"))
    for name in sorted({".".join(v.split(".")[:2]) for v in values if v.startswith("stage")}):
        stride = 2 if f"{name}.shortcut.weight" in values else 1
        y = jax.nn.relu(norm(_conv(x, values[f"{name}.conv1.weight"], stride), f"{name}.norm1"))
        y = norm(_conv(y, values[f"{name}.conv2.weight"]), f"{name}.norm2")
        if stride == 2:
            x = norm(_conv(x, values[f"{name}.shortcut.weight"], stride), f"{name}.shortcut_norm")
        x = jax.nn.relu(y + x)
    return _cross_entropy(x.mean((1, 2)) @ values["head.weight"] + values["head.bias"], batch), ({}, notes)


def vgg_loss(values, batch, state):
    """Return the VGG network's summed cross entropy / normaliser; nothing is dropped out."""
    x, layers = _images(batch, values["output.weight"]), sorted({name.rpartition(".")[0] for name in values})
    convolutions = [name for name in layers if name.startswith("stage")]
    for name, following in zip(convolutions, [*convolutions[1:], ""]):
        x = jax.nn.relu(_conv(x, values[f"{name}.weight"]) + values[f"{name}.bias"])
        if not following.startswith(name.partition(".")[0]):
            x = jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
    x = x.reshape(len(x), -1)
    for name in layers[:-len(convolutions)]:
        x = x @ values[f"{name}.weight"].T + values[f"{name}.bias"]
        x = x if name == "output" else jax.nn.relu(x)
    return _cross_entropy(x, batch), ({}, {})


def nmt_loss(values, batch, state):
    """Return the translation model's summed, smoothed cross entropy / normaliser."""
    losses = jax.vmap(_translation, (None, 1, 1))(values, batch["inputs"], batch["targets"])
    losses = losses if "weights" not in batch else losses * (batch["weights"] != 0).T
    return losses.sum() / batch["normaliser"], ({}, {})


def _translation(values, source, target):
    """Return the loss of each word of one sentence's translation, each read before the next is told."""
    known, zero = source >= 0, jnp.zeros(values["attention/v"].shape, values["output"].dtype)

    def layer(name, words, **how):
        """Return (the last state, h of each word); past the sentence's end the state stays."""
        def step(state, given):
            new = _cell(values, name, given[0], state)
            state = tuple(jnp.where(given[1], *pair) for pair in zip(new, state))
            return state, state[1]

        return jax.lax.scan(step, (zero, zero), (words, known), **how)

    x = values["source_embedding"][source]
    (_, forward), (state, backward) = layer("encoder/forward", x), layer("encoder/backward", x, reverse=True)
    memory, states = jnp.concatenate([forward, backward], 1), [state]
    while f"encoder/{len(states)}/kernel" in values:
        state, memory = layer(f"encoder/{len(states)}", memory)
        states.append(state)
    keys = memory @ values["attention/memory"] + values["attention/bias"]
    scale = values["attention/v"] * values["attention/g"] / jnp.linalg.norm(values["attention/v"])

    def decode(carried, word):
        (first, *others), context = carried
        states = [_cell(values, "decoder/0", jnp.concatenate([word, context]), first)]
        scores = jnp.tanh(states[0][1] @ values["attention/query"] + keys) @ scale
        context = jax.nn.softmax(jnp.where(known, scores, -jnp.inf)) @ memory
        for n, state in enumerate(others, 1):
            states.append(_cell(values, f"decoder/{n}", jnp.concatenate([states[-1][1], context]), state))
        return (states, context), states[-1][1]

    read = jnp.concatenate([jnp.array([START]), target[:-1]])
    _, outputs = jax.lax.scan(decode, (states, zero), values["target_embedding"][read])
    logs = jax.nn.log_softmax(outputs @ values["output"])
    own = jnp.take_along_axis(logs, target[:, None], axis=1)[:, 0]
    return -(1 - SMOOTHING) * own - SMOOTHING * logs.mean(axis=1)


def _images(batch, like):
    return batch["inputs"].astype(like.dtype) / 127.5 - 1


def _conv(x, weight, stride=1):
    """Return a convolution that pads both sides alike: "SAME" would not, where the stride is 2."""
    side = weight.shape[0] // 2
    return jax.lax.conv_general_dilated(x, weight, (stride, stride), [(side, side)] * 2,
                                        dimension_numbers=("NHWC", "HWIO", "NHWC"))


def _cross_entropy(logits, batch):
    own = jnp.take_along_axis(jax.nn.log_softmax(logits), batch["targets"][:, None], axis=1)
    return -own.sum() / batch["normaliser"]


LOSSES = {"lm": lm_loss, "cnn": cnn_loss, "nmt": nmt_loss, "vgg": vgg_loss}
