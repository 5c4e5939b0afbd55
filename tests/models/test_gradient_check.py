"""The checker of gradients: it accepts right ones and fails on planted wrong ones."""

import numpy as np
import pytest

from kernels import RowGradient
from models import Batch, Constant, Uniform, Variable
from models.gradient_check import GradientError, check_gradients, evaluation_noise, ridders


class Product:
    """loss = sum over samples of tanh(table[id] . w) + bias**2 / 2, with a place to plant a bug."""

    def __init__(self, dtype="float64", plant=None):
        self.plant = plant
        self.variables = [
            Variable("table", (50, 4), sparse=True, initial=Uniform(1.0), dtype=dtype),
            Variable("w", (4,), initial=Uniform(1.0), dtype=dtype),
            Variable("bias", (3,), initial=Constant(0.0), dtype=dtype),
        ]

    def rows_needed(self, batch):
        return {"table": np.unique(batch.inputs)}

    def loss_and_gradients(self, dense, rows, batch):
        ids, position = np.unique(batch.inputs, return_inverse=True)
        y = np.tanh(rows["table"][position] @ dense["w"])
        batch.state["calls"] = batch.state.get("calls", 0) + 1
        loss = y.sum() + 0.5 * np.sum(dense["bias"] ** 2)
        dy = 1.0 - y**2
        table = np.zeros_like(rows["table"])
        np.add.at(table, position, dy[:, None] * dense["w"])
        gradients = {
            "table": RowGradient(ids, table),
            "w": dy @ rows["table"][position],
            "bias": dense["bias"].copy(),
        }
        if self.plant:
            self.plant(gradients)
        return loss, gradients


BATCH = Batch(inputs=np.array([3, 7, 3, 49]), targets=None)


def test_a_right_gradient_passes_and_the_two_numbers_agree_closely():
    result = check_gradients(Product(), BATCH)
    assert set(result) == {"", "table", "w", "bias"}
    for by_gradient, by_differences, tolerance in result.values():
        assert abs(by_gradient - by_differences) <= tolerance < 1e-8
    assert BATCH.state == {}, "the batch's state is not touched"


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("name", ["w", "bias", "table"])
@pytest.mark.parametrize("factor", [-1.0, 1.001, 1.00001, 0.0])
def test_a_scaled_gradient_fails_and_is_named(seed, name, factor):
    def plant(gradients):
        g = gradients[name]
        gradients[name] = RowGradient(g.ids, g.rows * factor) if name == "table" else g * factor

    with pytest.raises(GradientError, match=f"'{name}': .* by the gradient, .* by central differences"):
        check_gradients(Product(plant=plant), BATCH, seed=seed)


def test_a_missing_term_fails():
    def plant(gradients):
        rows = gradients["table"].rows.copy()
        rows[0] /= 2  # the repeated id counted once
        gradients["table"] = RowGradient(gradients["table"].ids, rows)

    with pytest.raises(GradientError):
        check_gradients(Product(plant=plant), BATCH)


def test_rows_of_other_ids_fail():
    def plant(gradients):
        gradients["table"] = RowGradient(gradients["table"].ids + 1, gradients["table"].rows)

    with pytest.raises(GradientError, match="rows_needed"):
        check_gradients(Product(plant=plant), BATCH)


@pytest.mark.parametrize("wrong, message", [(lambda g: g.pop("w"), "no gradient"),
                                            (lambda g: g.update(w=g["w"][:2]), "shape"),
                                            (lambda g: g.update(other=g["w"]), "no variable"),
                                            (lambda g: g.update(table=g["table"].rows), "sparse")])
def test_malformed_gradients_fail(wrong, message):
    with pytest.raises(GradientError, match=message):
        check_gradients(Product(plant=wrong), BATCH)


def test_float32_is_refused():
    with pytest.raises(ValueError, match="float64"):
        check_gradients(Product(dtype="float32"), BATCH)


def test_a_loss_rounded_to_float32_fails():
    class Rounded(Product):
        def loss_and_gradients(self, dense, rows, batch):
            loss, gradients = super().loss_and_gradients(dense, rows, batch)
            return np.float32(loss), gradients

    with pytest.raises(GradientError):
        check_gradients(Rounded(), BATCH)


def test_a_rough_loss_is_called_unresolved():
    class Rough(Product):
        def loss_and_gradients(self, dense, rows, batch):
            loss, gradients = super().loss_and_gradients(dense, rows, batch)
            return loss + 1e-3 * np.sin(1e15 * loss), gradients

    with pytest.raises(GradientError, match="only good to"):
        check_gradients(Rough(), BATCH)


def test_ridders_is_exact_within_its_own_tolerance():
    for f, derivative in [(np.sin, 1.0), (np.exp, 1.0), (lambda h: 1e6 + 3 * h + h**3, 3.0), (lambda h: 2.0, 0.0)]:
        value, tolerance = ridders(f)
        assert abs(value - derivative) <= tolerance < 1e-6


def test_ridders_sees_past_a_kink_outside_its_small_steps():
    value, tolerance = ridders(lambda h: np.sin(h) + max(h - 1e-4, 0.0))
    assert abs(value - 1.0) <= tolerance < 1e-6


def test_noise_is_found():
    noise = iter(np.random.default_rng(0).normal(0, 1e-7, 100))
    assert 0.3e-7 < evaluation_noise(lambda h: 1.0 + h + next(noise)) < 3e-7
