"""What cannot be trained, or would be trained wrongly, is named with its remedy: before the first step, or in it."""

import importlib
import os
import random
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from framework_toys import computed
from mpi4py import MPI
from toy_losses import batch_of, data_of, model_of, squared

from models import Batch, Uniform
from models.data import Examples
from refimpl.jax import JaxModel
from refimpl.training.options import Options
from refimpl.training.session import train
from refimpl.transport import CollectiveError

ROOT = Path(__file__).parents[2]
ONE = np.ones(3, "float32")


@pytest.mark.parametrize("parameters, said", [
    ({"w": np.ones(2)}, r'w is float64, which JAX would cut to 32 bits: say jax.config.update\("jax_enable_x64"'),
    ({"w": np.ones(2, int)}, "w is int64: trainings are of float32 or float64"),
    ({"w": jnp.ones(2, "bfloat16")}, "w is bfloat16: trainings are of"),
    ({"a": {"w": 1.0}}, r"a.w is 1.0, no array: give np.float32\(x\), or leave out"),
    ({"w": "tanh"}, "w is 'tanh', no array"),
    ({}, "there are no parameters: give JaxModel a tree of arrays"),
    ({"a": {"b": ONE}, "a.b": ONE}, "two parameters are called a.b: leave dots out of the tree's keys"),
    ({"w": jax.ShapeDtypeStruct((2,), "float32")}, "w has a shape and no values: give it some, JaxModel"),
])
def test_parameters_that_are_none(parameters, said):
    with pytest.raises(ValueError, match=said):
        JaxModel(squared, parameters)


@pytest.mark.parametrize("options, said", [
    (dict(loss=3), "the loss is 3: give a function"),
    (dict(rows={"words": len}), "rows names words, which is no parameter; there are hidden.b, hidden.w, items"),
    (dict(initial={"words": Uniform(1)}), "initial names words, which is no parameter"),
    (dict(rows={"out": len}), r"sparse variable 'out' has shape \(5,\): give it two axes"),
    (dict(parameters={"items": jax.ShapeDtypeStruct((2**31, 2), "float32")}, rows={"items": len}),
     "items has 2147483648 rows, whose numbers JAX would cut to 32 bits"),
])
def test_options_that_cannot_be_meant(options, said):
    with pytest.raises(ValueError, match=said):
        model_of("rated", **options)


def loss_of(function):
    return lambda params, batch: function(params["w"], batch.targets)


def branching(w, y):
    return w.sum() if y[0] > 0 else 2 * w.sum()


def host(w, y):
    return jnp.sum(w) * np.sum(np.asarray(y))


def printing(w, y):
    jax.debug.print("{}", w)
    return (w.sum() * y).sum()


def drawing(w, y):
    return (w.sum() * np.random.random() * y).sum()


def tossing(w, y):
    return (w.sum() * random.random() * y).sum()


GENERATOR = np.random.default_rng(0)


def drawing_by_itself(w, y):
    return (w * GENERATOR.random(3).astype("float32")).sum() * y.sum()


@pytest.mark.parametrize("function, said", [
    (drawing_by_itself, "gives another computation each time it is compiled.*Draw by jax.random and batch.key"),
    (drawing, r"draws from NumPy's \(np.random\) or Python's \(random\) numbers.*Draw by jax.random and batch.key"),
    (tossing, "draws from NumPy's"),
    (lambda w, y: 1.0, "the loss is float: it must be the sum over the microbatch's examples"),
    (lambda w, y: y * w.sum(), r"the loss is an array of float32 \(11,\)"),
    (lambda w, y: y.astype(int).sum(), r"the loss is an array of int32 \(\)"),
    (lambda w, y: (w.sum() * y ** 2).mean(), "the loss is a mean over the microbatch.*jnp.sum in place of jnp.mean"),
    (lambda w, y: (w.sum() * y.sum(), 3), r"the loss returned \(sum, int\): what is carried"),
    (branching, r"the loss cannot be compiled.*test_refusals.py.* Choose by jnp.where or jax.lax.cond"),
    (host, "the loss cannot be compiled.*compute with jnp in place of np"),
    (printing, "the loss has side effects .* leave callbacks and prints out"),
    (lambda w, y: (w * jnp.nan).sum() * y.sum(), "nan"),
], ids=["generator", "np.random", "random", "float", "vector", "whole", "mean", "state", "branch", "numpy", "print", "nan"])
def test_losses_that_are_none(function, said):
    """As a user meets it: train says it."""
    with pytest.raises(CollectiveError, match=f"(?is){said}"):
        train(JaxModel(loss_of(function), {"w": ONE}), data_of(1, 11), options=Options(steps=1), comm=MPI.COMM_SELF)


def test_a_mean_is_found_where_a_loss_cannot_do_without_a_key():
    def loss(params, batch):
        return (jax.random.uniform(batch.key) + params["w"].sum() * batch.targets ** 2).mean()

    with pytest.raises(ValueError, match="the loss is a mean over the microbatch"):
        computed(JaxModel(loss, {"w": ONE}), batch_of())


@pytest.mark.parametrize("use", [lambda table: jnp.sum(table), lambda table: jnp.ones((3, 2)) @ table.T,
                                 lambda table: sum(x.sum() for x in jax.tree.leaves({"table": table})),
                                 lambda table: jnp.take(jnp.asarray(table, "float32"), jnp.array([1]), 0).sum(),
                                 lambda table: jnp.asarray(np.asarray(table)).sum()],
                         ids=["sum", "product", "all", "flax", "numpy"])
def test_a_table_that_is_not_looked_up(use):
    model = JaxModel(lambda params, batch: use(params["table"]), {"table": np.ones((9, 2), "float32")},
                     rows={"table": lambda batch: [1]})
    with pytest.raises(ValueError, match=r"table is used otherwise than by .*, at test_refusals.py:\d+.*leave the table out"):
        computed(model, batch_of())


def test_the_place_that_is_named_is_in_the_users_own_code(tmp_path, monkeypatch):
    folder = tmp_path / "site-packages"
    folder.mkdir()
    (folder / "some_layers.py").write_text("def embed(table, ids):\n    return table.take(ids, 0)\n")
    monkeypatch.syspath_prepend(folder)
    embed = importlib.import_module("some_layers").embed
    model = JaxModel(lambda params, batch: embed(params["table"], 1), {"table": np.ones((9, 2), "float32")},
                     rows={"table": lambda batch: [1]})
    with pytest.raises(ValueError, match=r"otherwise than by .*, at test_refusals.py:\d+: model = JaxModel"):
        computed(model, batch_of())


@pytest.mark.parametrize("leaf, said", [
    (np.array([2**31]), "a batch holds the whole number 2147483648, which JAX would cut to 32 bits"),
    (np.array([-2**31 - 1, 0]), "a batch holds the whole number -2147483649"),
    (np.array(["a"]), "a batch holds <U1"),
    ("a", "a batch holds str: a loss in JAX takes NumPy's arrays"),
])
def test_batches_that_jax_cannot_have(leaf, said):
    with pytest.raises(ValueError, match=said):
        computed(JaxModel(loss_of(lambda w, y: w.sum() * y.sum()), {"w": ONE}), Batch(leaf, ONE))


def test_an_evaluation_of_rows_outside_of_their_table():
    model = JaxModel(lambda params, batch: params["table"][batch.inputs].sum(), {"table": np.ones((9, 2), "float32")},
                     rows={"table": lambda batch: batch.inputs})
    data, wrong = (Examples(np.array([1, 2, last]), np.zeros(3), 1, 3) for last in (8, 9))
    with pytest.raises(CollectiveError, match="a sum is not finite"):
        train(model, data, wrong, options=Options(steps=1), comm=MPI.COMM_SELF)


def test_values_on_a_gpu():
    class There:
        dtype, shape, ndim = np.dtype("float32"), (3,), 1

    with pytest.raises(ValueError, match="refimpl.jax computes on the CPU: train with --device cpu"):
        JaxModel(squared, {"w": ONE}).loss_and_gradients({"w": There()}, {}, batch_of())


def said_by(code, **environment):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT,
                          env=os.environ | environment).stderr.strip().splitlines()[-1]


def test_without_jax_the_import_says_what_to_do():
    assert said_by("import sys; sys.modules['jax'] = None\nimport refimpl.jax").startswith(
        "ModuleNotFoundError: refimpl.jax needs JAX, which is not installed: pip install -e '.[jax]'")


def test_without_flax_its_model_says_what_to_do():
    code = "import sys; sys.modules['flax'] = None\nimport refimpl.jax\nrefimpl.jax.{}"
    assert said_by(code.format("LinenModel")).startswith(
        "ModuleNotFoundError: refimpl.jax.LinenModel needs flax, which is not installed: pip install -e '.[flax]'")
    assert "AttributeError: refimpl.jax has no TorchModel; it has EquinoxModel" in said_by(code.format("TorchModel"))


def test_jax_with_several_threads_is_refused(tmp_path):
    """Where it has begun before: how it cuts work depends on their number, and so do the bits. JAX's cache of programs,
    which a process with one thread has filled here, does not know this number."""
    begun = ("import jax, numpy\njax.devices()\nimport refimpl.jax\n"
             "refimpl.jax.JaxModel(print, {'w': numpy.ones(2, 'float32')})\nprint(jax.numpy.ones(3), file=sys.stderr)")
    kept = {"JAX_COMPILATION_CACHE_DIR": str(tmp_path)}
    assert said_by(f"import sys\n{begun}", PJRT_NPROC="1", **kept) == "[1. 1. 1.]" and [*tmp_path.glob("one-thread/*")]
    assert "ValueError: JAX has begun to compute with several threads" in said_by(begun, PJRT_NPROC="3", **kept)


def test_what_was_learned_cannot_be_had(tmp_path):
    def model(name):
        return JaxModel(lambda params, batch: (params[name] * batch.inputs).sum(), {name: np.ones(2, "float32")})

    data, options = Examples(np.ones((4, 2), "float32"), ONE[:1].repeat(4), 1, 2), Options(steps=1)
    with pytest.raises(ValueError, match='wrote no files .*train with output="runs/mine"'):
        model("w").load(train(model("w"), data, comm=MPI.COMM_SELF, options=options))
    train(model("w"), data, comm=MPI.COMM_SELF, options=options, output=tmp_path / "run")
    with pytest.raises(ValueError, match="run of other parameters: it has .*'w'.* and this model .*'v'"):
        model("v").load(tmp_path / "run")
