"""One microbatch: gradients against differences, a hand-written one and dense tables; only declared rows are here."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from framework_toys import computed, moved, text_of, values_of
from mpi4py import MPI
from toy_losses import ROWS, batch_of, data_of, model_of, ready, squared

from kernels import RowGradient
from models import Batch, Uniform
from models.gradient_check import GradientError, check_gradients
from refimpl.conformance.bounds import gamma
from refimpl.jax import JaxModel, Microbatch
from refimpl.training.options import Options
from refimpl.training.session import train


@pytest.mark.thorough("rated")
@pytest.mark.parametrize("name", ["rated", "text"])
def test_gradients_are_those_that_differences_show(name):
    with jax.enable_x64(True):
        batch = batch_of(dtype="float64") if name == "rated" else replace(text_of().microbatch(0, 0), key=3)
        check_gradients(ready(name, "float64"), batch)


def test_a_wrong_gradient_is_found():
    @jax.custom_vjp
    def wrong(x):
        return x

    wrong.defvjp(lambda x: (x, None), lambda kept, gradient: (1.01 * gradient,))
    with jax.enable_x64(True), pytest.raises(GradientError, match="'w'"):
        model = JaxModel(lambda params, batch: (batch.inputs @ wrong(params["w"])).sum(), {"w": np.ones(3)})
        check_gradients(model, Batch(np.arange(6.0).reshape(2, 3), np.zeros(2)))


def test_a_gradient_written_by_hand():
    """Of sum (x w - y)^2 / n it is 2 x^T (x w - y) / n: each side within gamma of exact (Higham 2002, section 3.1)."""
    random = np.random.default_rng(1)
    x, w, y = random.standard_normal((6, 4)), random.standard_normal(4), random.standard_normal(6)
    with jax.enable_x64(True):
        model = JaxModel(lambda params, batch: ((batch.inputs @ params - batch.targets) ** 2).sum(), w)
        loss, gradients = computed(model, Batch(x, y, normaliser=13.0))
    error = x @ w - y
    sums = np.abs(x) @ np.abs(w) + np.abs(y)
    assert abs(loss - error @ error / 13) <= 2 * gamma(20, np.float64) * (sums @ sums) / 13
    assert (np.abs(gradients["parameters"] - 2 * x.T @ error / 13)
            <= 2 * gamma(20, np.float64) * 2 * np.abs(x).T @ sums / 13).all()


def test_rows_have_the_gradient_that_a_whole_table_has():
    """They are two programs to XLA, which may round otherwise."""
    with jax.enable_x64(True):
        batch = batch_of(dtype="float64")
        (loss, rows), (whole, dense) = (computed(model, batch) for model in (
            ready("rated", "float64"), model_of("rated", "float64", dense=True)))
    assert loss == pytest.approx(whole, rel=1e-12) and rows.keys() == dense.keys()
    for name, gradient in rows.items():
        if isinstance(gradient, RowGradient):
            assert name in ("items", "tags") and len(gradient) < ROWS and np.array_equal(gradient.ids, np.unique(
                batch.inputs[:, :1] if name == "items" else batch.inputs[:, 1:4]))
            assert not np.delete(dense[name], gradient.ids, axis=0).any()
            gradient, dense[name] = gradient.rows, dense[name][gradient.ids]
        assert np.allclose(gradient, dense[name], rtol=1e-9, atol=1e-9)


def test_few_lengths_are_compiled_and_padding_has_no_gradient():
    model = JaxModel(lambda params, batch: (params["table"][batch.inputs] ** 2).sum(),
                     {"table": np.ones((500, 2), "float32")}, rows={"table": lambda batch: batch.inputs})
    for count in (1, 40, 64, 65, 100, 128):
        ids = np.random.default_rng(count).permutation(500)[:count]
        _, gradients = computed(model, Batch(np.resize(ids, 128), np.zeros(128)))
        assert np.array_equal(gradients["table"].ids, np.sort(ids)) and gradients["table"].rows.shape == (count, 2)
    assert model.gradient._cache_size() == 2


def test_look_ups_within_control_flow_and_mapped():
    ids = np.array([3, 1, 3, 7])

    def plain(params, batch):
        return (params["table"][batch.inputs] ** 2).sum()

    def scanned(params, batch):
        return jax.lax.scan(lambda sum, i: (sum + (params["table"][i] ** 2).sum(), None), 0.0, batch.inputs)[0]

    def mapped(params, batch):
        return jax.checkpoint(jax.vmap(lambda i: (params["table"][i] ** 2).sum()))(batch.inputs).sum()

    for missing in (False, True):
        rows = {"table": lambda batch: batch.inputs[:2] if missing else batch.inputs}
        for loss in (plain, scanned, mapped):
            model = JaxModel(loss, {"table": np.arange(20, dtype="float32").reshape(10, 2)}, rows=rows)
            batch = Batch(ids, np.zeros(4))
            if missing:
                with pytest.raises(ValueError, match="looks up 1 rows of table that were not declared, or do not"):
                    computed(model, batch)
            else:
                gradient = computed(model, batch)[1]["table"]
                assert gradient.ids.tolist() == [1, 3, 7] and gradient.rows.tolist() == [[4, 6], [24, 28], [28, 30]]


@pytest.mark.parametrize("wrong", [-1, 10, 2**31 - 1])
def test_a_row_that_a_comparison_would_swallow_is_missed_all_the_same(wrong):
    """A NaN is not above 0: only the count of look-ups shows that a row is not here."""
    def loss(params, batch):
        x = params["table"][batch.inputs]
        return jnp.where(x > 0, x, 0).sum()

    model = JaxModel(loss, {"table": np.ones((10, 2), "float32")}, rows={"table": lambda batch: [3]})
    with pytest.raises(ValueError, match="looks up 1 rows of table"):
        computed(model, Batch(np.array([3, wrong, 3]), np.zeros(3)))


def test_bits_do_not_depend_on_where_values_and_batches_lie():
    found, model = [], ready("rated")
    for by in (0, 1, 4, 8):
        batch = batch_of()
        dense, rows = values_of(model, model.rows_needed(batch))
        batch.inputs = moved(batch.inputs, by)
        loss, gradients = model.loss_and_gradients(*({n: moved(value, by) for n, value in some.items()}
                                                     for some in (dense, rows)), batch)
        found.append([loss, *(np.asarray(getattr(g, "rows", g)).tobytes() for g in gradients.values())])
    assert all(one == found[0] for one in found)


def test_random_numbers_are_a_function_of_the_key():
    losses = [computed(ready("rated"), batch_of(key=key))[0] for key in (1, 2**63 + 1, 1)]
    assert losses[0] == losses[2] != losses[1]


def test_a_state_is_carried():
    def loss(params, batch):
        total = batch.state.get("total", 0.0) + batch.targets.sum()
        return params["w"] * total, {"total": total}

    model, batch = JaxModel(loss, {"w": np.float32(2)}), Batch(np.zeros(3), np.arange(3, dtype="float32"))
    assert [computed(model, batch)[0] for _ in range(3)] == [6, 12, 18]
    assert isinstance(batch.state["total"], np.ndarray) and batch.state["total"] == 9


def test_parts_of_a_loss_stand_in_the_metrics():
    def told(params, batch):
        batch.metrics["positive"] = (batch.targets > 0).sum()
        return squared(params, batch)

    model, data, lines = model_of("rated", loss=told), data_of(4), []
    model.metrics = ["positive"]
    train(model, data, data, comm=MPI.COMM_SELF, options=Options(steps=2), progress=lines.append)
    for step, line in enumerate(lines):
        positive = sum((data.microbatch(step, v).targets > 0).sum() for v in range(4))
        assert line["metrics"] == {"positive": pytest.approx(positive / data.examples(step), rel=1e-15)}


def test_what_functions_get():
    """A loss and the rows' function the same: JAX's arrays and NumPy's; names are paths in the tree."""
    seen = []

    def loss(params, batch):
        seen.append(batch)
        return sum(w.sum() for w in params["layers"]) + params["table"][batch.inputs["ids"]].sum()

    params = {"layers": [np.ones(2, "float32"), jnp.ones(())], "table": jax.ShapeDtypeStruct((9, 2), "float32")}
    model = JaxModel(loss, params, rows={"table": lambda batch: seen.append(batch) or batch.inputs["ids"]},
                     initial={"table": Uniform(0.5)})
    assert [(v.name, v.shape, v.sparse) for v in model.variables] == [
        ("layers.0", (2,), False), ("layers.1", (), False), ("table", (9, 2), True)]
    assert np.abs(model.variables[2].initial_value(1)).max() < 0.5
    computed(model, Batch({"ids": np.arange(3), "times": 2}, np.zeros(3)))
    assert isinstance(seen[0].inputs["ids"], np.ndarray) and isinstance(seen[1].inputs["ids"], jax.Array)
    assert all(isinstance(batch, Microbatch) and jnp.issubdtype(batch.key.dtype, jax.dtypes.prng_key)
               for batch in seen[:2])
