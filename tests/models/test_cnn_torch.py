"""ConvNet and its normalisation against PyTorch's autograd, float64 on both sides.

The two add in other orders, and no bound of PyTorch's order is documented: TOLERANCE, relative to the largest element,
is 1e4 times float64 rounding, while a wrong term shows at 1e-2 or more (test_the_tolerance_sees_a_wrong_term).
"""

import numpy as np
import pytest

from models import STATISTIC_RATE, Batch
from models.cnn import ConvNet
from models.cnn.batch_norm import EPSILON, norm_backward, norm_forward, norm_variables, statistics_shares

torch = pytest.importorskip("torch")
from refimpl.conformance.adapters.torch_models import cnn_loss  # noqa: E402 - which wants PyTorch

TOLERANCE = 1e4 * 2.0**-53


def close(ours, theirs):
    ours, theirs = np.asarray(ours), theirs.detach().numpy()
    return ours.shape == theirs.shape and np.max(np.abs(ours - theirs)) <= TOLERANCE * np.max(np.abs(theirs))


@pytest.mark.parametrize("relu", [False, True])
def test_batch_norm_and_its_running_statistics(relu):
    rng = np.random.default_rng(1)
    dense = {v.name: rng.random(v.shape) + 0.5 for v in norm_variables("norm", 4, "float64")}
    x, grad = rng.standard_normal((3, 5, 7, 4)) + 2, rng.standard_normal((3, 5, 7, 4))
    images, values = torch.tensor(x, requires_grad=True), {name: torch.tensor(value) for name, value in dense.items()}
    trained = [values[f"norm.{part}"].requires_grad_() for part in ("scale", "offset")]
    running = [values[f"norm.{part}"] for part in ("mean", "variance")]
    theirs = torch.nn.functional.batch_norm(images.permute(0, 3, 1, 2), *running, *trained, training=True,
                                            momentum=STATISTIC_RATE, eps=EPSILON).permute(0, 2, 3, 1)
    theirs = theirs.relu() if relu else theirs
    theirs.backward(torch.tensor(grad))
    y, saved = norm_forward(x, dense, "norm", relu)
    gradients = {}
    grad_x = norm_backward(grad, saved, dense, "norm", gradients, statistics_shares({"norm": saved}, 1.0), relu)
    assert close(y, theirs) and close(grad_x, images.grad)
    assert all(close(gradients[f"norm.{part}"], value.grad) for part, value in zip(("scale", "offset"), trained))
    places = 3 * 5 * 7
    gradients["norm.variance"] *= places / (places - 1)  # PyTorch keeps the sample's variance, we the population's
    for name, after in zip(("norm.mean", "norm.variance"), running):
        assert close(dense[name] + STATISTIC_RATE * (gradients[name] - dense[name]), after)


@pytest.fixture(scope="module")
def both():
    """Return (loss, gradients) of the whole model, by us and by PyTorch; of a statistic its share."""
    model = ConvNet((9, 6, 3), 5, width=16, blocks=(1, 2), augment=False, dtype="float64")
    rng = np.random.default_rng(5)
    batch = Batch(rng.integers(0, 256, (5, 9, 6, 3)).astype(np.uint8), rng.integers(0, 5, 5), normaliser=7.0)
    dense, shares = {v.name: v.initial_value(3) for v in model.variables}, {}
    values = {v.name: torch.tensor(dense[v.name], requires_grad=not v.statistic) for v in model.variables}
    given = {"inputs": torch.tensor(batch.inputs), "targets": torch.tensor(batch.targets), "normaliser": np.float64(7)}
    loss = cnn_loss(values, given, {}, shares)
    loss.backward()
    theirs = shares | {name: value.grad for name, value in values.items() if value.requires_grad}
    return model.loss_and_gradients(dense, {}, batch), (loss, theirs)


def assert_close(gradients, theirs):
    assert gradients.keys() == theirs.keys()
    for name, value in theirs.items():
        assert close(gradients[name], value), name


def test_whole_model(both):
    (loss, gradients), (theirs, expected) = both
    assert close(loss, theirs)
    assert_close(gradients, expected)


def test_the_tolerance_sees_a_wrong_term(both):
    (_, gradients), (_, expected) = both
    for name in ("stage1.block0.conv1.weight", "stem.weight"):
        wrong = gradients[name].copy()
        wrong[1, 1, 0, 0] *= 1 + 1e-6
        wrong[0, 0] *= 1 + 1e-6
        with pytest.raises(AssertionError, match=name):
            assert_close(gradients | {name: wrong}, expected)
