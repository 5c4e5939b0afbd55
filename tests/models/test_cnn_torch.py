"""ConvNet and its normalisation against PyTorch's autograd, float64 on both sides.

The two add in other orders, and no bound of PyTorch's order is documented: TOLERANCE, relative to the largest element,
is 1e4 times float64 rounding, while a wrong term shows at 1e-2 or more (test_the_tolerance_sees_a_wrong_term).
"""

import numpy as np
import pytest

from models import STATISTIC_RATE, Batch
from models.cnn import ConvNet
from models.cnn.batch_norm import EPSILON, norm_backward, norm_forward, norm_variables, statistics_shares
from models.vision.images import normalize_images

torch = pytest.importorskip("torch")
functional = torch.nn.functional
TOLERANCE = 1e4 * 2.0**-53


def close(ours, theirs):
    ours, theirs = np.asarray(ours), theirs.detach().numpy()
    return ours.shape == theirs.shape and np.max(np.abs(ours - theirs)) <= TOLERANCE * np.max(np.abs(theirs))


def random_values(variables, seed=0):
    rng = np.random.default_rng(seed)
    positive = "variance", "scale"
    return {v.name: rng.random(v.shape) + 0.5 if v.name.endswith(positive) else rng.standard_normal(v.shape)
            for v in variables}


def tensors(dense):
    return {name: torch.tensor(value, requires_grad=not name.endswith(("mean", "variance")))
            for name, value in dense.items()}


def torch_conv(x, weight, stride=1):
    """Convolve images of our layout with a kernel of our layout."""
    x, weight, padding = x.permute(0, 3, 1, 2), weight.permute(3, 2, 0, 1), weight.shape[0] // 2
    y = functional.conv2d(x, weight, stride=stride, padding=padding)
    return y.permute(0, 2, 3, 1)


def torch_norm(x, values, name, running=None):
    mean, variance = running or (None, None)
    y = functional.batch_norm(x.permute(0, 3, 1, 2), mean, variance, values[f"{name}.scale"],
                              values[f"{name}.offset"], training=True, momentum=STATISTIC_RATE, eps=EPSILON)
    return y.permute(0, 2, 3, 1)


def torch_block(x, values, name, stride):
    y = torch_norm(torch_conv(x, values[f"{name}.conv1.weight"], stride), values, f"{name}.norm1").relu()
    y = torch_norm(torch_conv(y, values[f"{name}.conv2.weight"]), values, f"{name}.norm2")
    if f"{name}.shortcut.weight" in values:
        x = torch_norm(torch_conv(x, values[f"{name}.shortcut.weight"], stride), values, f"{name}.shortcut_norm")
    return (y + x).relu()


def assert_gradients_close(gradients, values):
    for name, value in values.items():
        if value.requires_grad:
            assert close(gradients[name], value.grad), name


@pytest.mark.parametrize("relu", [False, True])
def test_batch_norm_and_its_running_statistics(relu):
    dense = random_values(norm_variables("norm", 4, "float64"))
    rng = np.random.default_rng(1)
    x, grad = rng.standard_normal((3, 5, 7, 4)) + 2, rng.standard_normal((3, 5, 7, 4))
    images, values = torch.tensor(x, requires_grad=True), tensors(dense)
    running = values["norm.mean"].clone(), values["norm.variance"].clone()
    theirs = torch_norm(images, values, "norm", running)
    theirs = theirs.relu() if relu else theirs
    theirs.backward(torch.tensor(grad))
    y, saved = norm_forward(x, dense, "norm", relu)
    gradients = {}
    grad_x = norm_backward(grad, saved, dense, "norm", gradients, statistics_shares({"norm": saved}, 1.0), relu)
    assert close(y, theirs) and close(grad_x, images.grad)
    assert_gradients_close(gradients, values)
    places = 3 * 5 * 7
    gradients["norm.variance"] *= places / (places - 1)  # PyTorch keeps the sample's variance, we the population's
    for part, after in zip(("mean", "variance"), running, strict=True):
        moved = dense[f"norm.{part}"] + STATISTIC_RATE * (gradients[f"norm.{part}"] - dense[f"norm.{part}"])
        assert close(moved, after)


def torch_loss(model, values, batch):
    x = torch.tensor(normalize_images(batch.inputs, "float64"))
    x = torch_norm(torch_conv(x, values["stem.weight"]), values, "stem_norm").relu()
    for name, _, stride in model.blocks:
        x = torch_block(x, values, name, stride)
    logits = x.mean(dim=(1, 2)) @ values["head.weight"] + values["head.bias"]
    return functional.cross_entropy(logits, torch.tensor(batch.targets), reduction="sum") / batch.normaliser


def whole_model():
    model = ConvNet((9, 6, 3), 5, width=16, blocks=(1, 2), augment=False, dtype="float64")
    rng = np.random.default_rng(5)
    batch = Batch(rng.integers(0, 256, (5, 9, 6, 3)).astype(np.uint8), rng.integers(0, 5, 5), normaliser=7.0)
    return model, batch, {v.name: v.initial_value(3) for v in model.variables}


def test_whole_model():
    model, batch, dense = whole_model()
    values = tensors(dense)
    theirs = torch_loss(model, values, batch)
    theirs.backward()
    loss, gradients = model.loss_and_gradients(dense, {}, batch)
    assert close(loss, theirs)
    assert_gradients_close(gradients, values)


def test_the_tolerance_sees_a_wrong_term():
    model, batch, dense = whole_model()
    values = tensors(dense)
    torch_loss(model, values, batch).backward()
    _, gradients = model.loss_and_gradients(dense, {}, batch)
    gradients["stage1.block0.conv1.weight"][1, 1, 0, 0] *= 1 + 1e-6
    gradients["stem.weight"] *= 1 + 1e-6
    with pytest.raises(AssertionError, match="stem.weight"):
        assert_gradients_close(gradients, values)
