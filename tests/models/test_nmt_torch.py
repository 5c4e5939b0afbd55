"""The translation model against PyTorch: written over a sentence at a time, differentiated by autograd, in float64."""

import numpy as np
import pytest
from nmt_batches import sentences, step, tiny, values_of

torch = pytest.importorskip("torch")
from refimpl.conformance.adapters.torch_models import nmt_loss  # noqa: E402 - which wants PyTorch


@pytest.mark.parametrize("layers", [2, 3])
@pytest.mark.parametrize("padding", [False, True])
def test_loss_and_every_gradient_agree(layers, padding):
    model = tiny(layers=layers, keep=1.0)
    batch, values = sentences(model, 6, 5, 4, padding=padding), values_of(model)
    tensors = {name: torch.tensor(value, requires_grad=True) for name, value in values.items()}
    given = {"inputs": torch.tensor(batch.inputs), "targets": torch.tensor(batch.targets),
             "normaliser": np.float64(batch.normaliser)}
    expected = nmt_loss(tensors, given | ({"weights": torch.tensor(batch.weights)} if padding else {}), {}, {})
    expected.backward()
    loss, gradients = step(model, values, batch)
    # As for the language model: fewer than 2**15 roundings on terms no larger than the largest entry times 2**3.
    bound = 2.0**(15 + 3 - 53)
    assert abs(loss - expected.item()) <= bound * abs(expected.item())
    for name, tensor in tensors.items():
        truth, found = tensor.grad.to_dense().numpy(), gradients[name]
        if hasattr(found, "ids"):
            found, rows = np.zeros_like(truth), found
            found[rows.ids] = rows.rows
        assert np.abs(found - truth).max() <= bound * np.abs(truth).max(), name
