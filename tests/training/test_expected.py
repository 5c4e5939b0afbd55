"""What people who know other frameworks try: it works, or is refused with the remedy. The table is the test."""

import pytest

from kernels.update.rates import rate_of
from refimpl import Options, train
from refimpl.training.expected import MEANT

OWN_LOOP = "refimpl.torch.Trainer, takes any optimizer and scheduler of torch.optim"
REFUSED = [
    (dict(optimizer="nadam"), OWN_LOOP), (dict(optimizer="AdamW"), "there are sgd, momentum, nesterov, adagrad, adam"),
    (dict(optimizer=object()), OWN_LOOP), (dict(learning_rate=lambda step: 0.1), OWN_LOOP),
    (dict(rate="exponential"), OWN_LOOP), (dict(rate=lambda step: -1.0), "the rate of step 0 is -1.0: it must be a"),
    (dict(rate=lambda step: "1"), "the rate of step 0 is '1'"), (dict(rate=[1.0, None]), "the rate of step 1 is None"),
    (dict(rate=lambda step: 1.0, warmup=3), "warmup is 3, and rate says the factor of each step itself"),
    (dict(rate=lambda step: 1.0, steps=1 << 21), "at most 1048576 are: say a name and rate_steps"),
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


def test_a_function_is_the_rate():
    options = Options(rate=lambda step: 0.5**step, steps=4)
    assert options.rate == [1.0, 0.5, 0.25, 0.125] and options == Options.from_json(options.to_json())
    found = [rate_of(step, base=0.2, rate=options.rate, warmup=0, steps=4) for step in range(6)]
    assert found == [0.2, 0.1, 0.05, 0.025, 0.025, 0.025]


def test_pytorchs_names_are_taken():
    given = Options(optimizer="adam", optimizer_options={"betas": (0.5, 0.75), "eps": 1e-6})
    assert given == Options(optimizer="adam", optimizer_options={"beta1": 0.5, "beta2": 0.75, "epsilon": 1e-6})
    assert Options(optimizer="momentum", optimizer_options={"momentum": 0.5}).optimizer_options == {"mu": 0.5}
