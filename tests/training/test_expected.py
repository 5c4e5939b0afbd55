"""What people who know other frameworks try: it works, or is refused with the remedy. The table is the test."""

import pytest

from refimpl import Options, train
from refimpl.training.expected import MEANT

OWN_LOOP = "refimpl.torch.Trainer, takes any optimizer and scheduler of torch.optim"
REFUSED = [
    (dict(optimizer="nadam"), OWN_LOOP), (dict(optimizer="AdamW"), "there are sgd, momentum, nesterov, adagrad, adam"),
    (dict(optimizer=object()), OWN_LOOP), (dict(learning_rate=lambda step: 0.1), OWN_LOOP),
    (dict(rate=lambda step: 0.1), OWN_LOOP), (dict(rate="exponential"), OWN_LOOP),
    (dict(optimizer="adagrad", optimizer_options={"nesterov": True}), OWN_LOOP),
    (dict(optimizer="adam", optimizer_options={"betas": (0.9, 1.5)}), "beta2 is 1.5: it must be at least 0 and"),
    (dict(optimizer="adam", optimizer_options={"betas": (0.9,)}), "adam has no option betas; it has beta1, beta2"),
]


@pytest.mark.parametrize("changes, words", REFUSED)
def test_what_options_refuse(changes, words):
    with pytest.raises(ValueError) as caught:
        Options(**changes)
    assert words in str(caught.value)


@pytest.mark.parametrize("name", MEANT)
def test_another_frameworks_words_are_refused_with_ours(name):
    for ask in (lambda: Options(**{name: 1}), lambda: train(None, None, **{name: 1})):
        with pytest.raises(TypeError) as caught:
            ask()
        assert str(caught.value) == f"{name} is unknown here: {MEANT[name]}"


def test_other_words_stay_pythons_own_errors():
    with pytest.raises(TypeError, match="unexpected keyword argument 'teleport'"):
        Options(teleport=1)


def test_pytorchs_names_are_taken():
    given = Options(optimizer="adam", optimizer_options={"betas": (0.5, 0.75), "eps": 1e-6})
    assert given == Options(optimizer="adam", optimizer_options={"beta1": 0.5, "beta2": 0.75, "epsilon": 1e-6})
    assert Options(optimizer="momentum", optimizer_options={"momentum": 0.5}).optimizer_options == {"mu": 0.5}
