"""The language model against PyTorch: the same model written over, differentiated by autograd, in float64."""

import numpy as np
import pytest

from kernels.random import dropout_scale, key_of
from models import Batch
from models.candidates import draw_candidates
from models.lm import PRESETS, LanguageModel

torch = pytest.importorskip("torch")


def torch_loss(model, v, batch):
    """Return the loss over torch tensors v: one token at a time where that is plainer."""
    time, streams = batch.inputs.shape
    weights = np.ones((time, streams)) if batch.weights is None else batch.weights
    x = v["embedding"][torch.from_numpy(batch.inputs)] * torch.from_numpy((weights != 0) * 1.0)[:, :, None]
    x = x * scale(model, batch, "input", x)
    for layer in model.layers:
        c, h = torch.from_numpy(batch.state[f"{layer}/c"]), torch.from_numpy(batch.state[f"{layer}/h"])
        outputs = []
        for t in range(time):
            i, j, f, o = (torch.cat([x[t], h], 1) @ v[f"{layer}/kernel"] + v[f"{layer}/bias"]).chunk(4, dim=1)
            c = torch.sigmoid(f + 1.0) * c + torch.sigmoid(i) * torch.tanh(j)
            h = (torch.sigmoid(o) * torch.tanh(c)) @ v[f"{layer}/projection"]
            outputs.append(h)
        x = torch.stack(outputs)
        x = x * scale(model, batch, layer, x)
    drawn = draw_candidates(key_of(batch.key, "candidates"), model.samples, model.vocabulary)
    losses = [token_loss(model, v, x[t, s], int(batch.targets[t, s]), drawn) * weights[t, s]
              for t in range(time) for s in range(streams) if weights[t, s]]
    return torch.stack(losses).sum() / batch.normaliser


def scale(model, batch, name, x):
    """Return the dropout factors of one place as a tensor."""
    return torch.from_numpy(dropout_scale(key_of(batch.key, "dropout", name), tuple(x.shape), model.keep,
                                          np.float64, np))


def token_loss(model, v, h, target, drawn):
    """Return the sampled-softmax loss of one token, in the words of TensorFlow's documentation."""
    classes = torch.tensor([target] + [k for k in drawn.ids.tolist() if k != target])
    k = classes.double()
    p = (torch.log(k + 2) - torch.log(k + 1)) / np.log(model.vocabulary + 1)
    expected = 1 - (1 - p) ** drawn.tries
    logits = v["softmax_weight"][classes] @ h + v["softmax_bias"][classes, 0] - torch.log(expected)
    return torch.nn.functional.cross_entropy(logits[None], torch.tensor([0]))


@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("padding", [False, True])
def test_loss_and_every_gradient_agree(layers, padding):
    model = LanguageModel(**{**PRESETS["tiny"], "layers": layers, "keep": 0.8, "dtype": "float64"})
    random = np.random.default_rng(layers)
    inputs, targets = random.integers(0, model.vocabulary, (2, 6, 3))
    batch = Batch(inputs, targets, normaliser=7.0, key=5)
    if padding:
        batch.weights = random.integers(0, 2, (6, 3)).astype(np.float32)  # as data give them: the loss stays float64
    for layer in model.layers:
        batch.state[f"{layer}/c"] = random.normal(size=(3, model.hidden))
        batch.state[f"{layer}/h"] = random.normal(size=(3, model.width))
    values = {v.name: v.initial_value(1) + 0.1 * random.normal(size=v.shape) for v in model.variables}
    tensors = {name: torch.from_numpy(value).requires_grad_() for name, value in values.items()}
    expected = torch_loss(model, tensors, batch)
    expected.backward()

    needed = model.rows_needed(batch)
    rows = {name: values[name][ids] for name, ids in needed.items()}
    loss, gradients = model.loss_and_gradients(values, rows, batch)
    # Sums of at most 6 * 3 * (50 + 20) products, 12 cells deep: fewer than 2**15 roundings of half an ULP each on
    # terms no larger than the largest entry times 2**3. A wrong term is 10**6 times that.
    bound = 2.0**(15 + 3 - 53)
    assert abs(loss - expected.item()) <= bound * abs(expected.item())
    for name, tensor in tensors.items():
        whole = gradients[name]
        if name in needed:
            whole = np.zeros_like(values[name])
            whole[gradients[name].ids] = gradients[name].rows
        reference = tensor.grad.numpy()
        assert np.abs(whole - reference).max() <= bound * np.abs(reference).max(), name
