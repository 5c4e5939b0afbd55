"""What works and what is refused with a module, row by row of the table in docs/jax.md; and the page's scripts.

A row without a trial fails, and so does a word of a row that its trial does not use.
"""

import importlib.util
import inspect
import re
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from mpi4py import MPI
from jax_modules import data_of

from refimpl import Options, train
from refimpl.training.run.directory import read_metrics
from refimpl.transport import CollectiveError

if importlib.util.find_spec("flax") is None:
    pytest.skip("flax is not installed", allow_module_level=True)

import flax.linen as nn
from flax import nnx

from refimpl.jax import LinenModel, NnxModel

PAGE = (Path(__file__).parents[2] / "docs/jax.md").read_text(encoding="utf-8")


def table() -> dict[str, str]:
    """Return what one has -> what is done with it, of the page's table and of the list below it."""
    text = PAGE.partition("## Modules")[2].partition("\n## ")[0]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line.startswith("|")]
    told = dict(rows[2:])
    for note in re.findall(r"^- ((?:.|\n(?=  ))+)", text, re.MULTILINE):
        [name] = (name for name in told if note.startswith(name))
        told[name] += f" {note}"
    return told


def trained(forward, loss=None, changed=(), evaluation=False, output=None, keys=("dropout",), **options):
    """Train the module whose compact __call__ is ``forward`` for two steps; return (the model, the result).

    changed: collections whose updates the loss returns.
    """
    net = type("Net", (nn.Module,), {"__call__": nn.compact(forward)})()

    def usual(variables, batch):
        found = net.apply(variables, batch.inputs, batch.training, mutable=list(changed), rngs=batch.rngs(*keys))
        return ((found[0].sum(1) - batch.targets) ** 2).sum(), found[1]

    variables = net.init(jax.random.key(0), data_of().microbatch(0, 0).inputs, False)
    variables = {name: some for name, some in variables.items() if name != "intermediates"}
    model = LinenModel(loss(net) if loss else usual, variables, **options)
    result = train(model, data_of(), data_of() if evaluation else None, comm=MPI.COMM_SELF, output=output,
                   options=Options(steps=2, optimizer="sgd", learning_rate=0.01))
    return model, result


def embedded(self, ids, train):
    return nn.Embed(40, 4, name="words")(ids).mean(1)


def refused(words, forward, **options):
    with pytest.raises((CollectiveError, ValueError), match=f"(?s){words}"):
        trained(forward, **options)


def embed(tmp_path):
    model, result = trained(embedded)
    declared = trained(embedded, rows={"params.words.embedding": lambda batch: batch.inputs})
    assert model.parts.tables and result.parameters_sha256 == declared[1].parameters_sha256
    assert "given" in vars(model.recorder) and "given" not in vars(declared[0].recorder)  # one number for each row

    def two(self, ids, train):
        return embedded(self, ids, train) + nn.Embed(50, 4, name="others")(ids + 3).mean(1)

    mixed = trained(two, rows={"params.words.embedding": lambda batch: batch.inputs})[0]
    assert mixed.recorder.tables == ["params.others.embedding"]


def batch_norm(tmp_path):
    def forward(self, ids, train):
        return nn.BatchNorm(use_running_average=not train)(embedded(self, ids, train))

    model, _ = trained(forward, changed=["batch_stats"], output=tmp_path / "run")
    assert np.abs(model.load(tmp_path / "run")["batch_stats"]["BatchNorm_0"]["mean"]).min() > 0


def dropout(tmp_path):
    def forward(self, ids, train):
        x = nn.Dropout(0.5, deterministic=not train)(embedded(self, ids, train))
        return x + jax.random.normal(self.make_rng("noise"), x.shape) if train else x

    found = [trained(forward, keys=("dropout", "noise"), evaluation=True)[1] for _ in range(2)]
    assert found[0].parameters_sha256 == found[1].parameters_sha256 and found[0].evaluation


def evaluation(tmp_path):
    def forward(self, ids, train):
        assert train or len(ids) > 1 or ids.shape == (1, 3)
        return embedded(self, ids, train) * (2 if train else 1)

    def counted(net):
        return lambda variables, batch: {"loss": (net.apply(variables, batch.inputs, batch.training) ** 2).sum(),
                                         "count": len(batch.targets)}

    net = type("Net", (nn.Module,), {"__call__": nn.compact(forward)})()
    assert trained(forward, evaluation=True, evaluate=counted(net))[1].evaluation["count"] == 46


def collections(tmp_path):
    def forward(self, ids, train):
        x = embedded(self, ids, train)
        average = self.variable("ema", "mean", lambda: jnp.zeros(4))
        seen = self.variable("ema", "steps", lambda: jnp.zeros((), "int32"))
        if train and self.is_mutable_collection("ema"):
            average.value = 0.9 * average.value + 0.1 * x.mean(0)
            seen.value = seen.value + 1
        return x + self.variable("fixed", "one", lambda: jnp.ones(4)).value

    model, _ = trained(forward, changed=["ema"], moving=["ema"], output=tmp_path / "run")
    learned = model.load(tmp_path / "run")
    assert learned["ema"]["steps"] == 2 and np.abs(learned["ema"]["mean"]).min() > 0 and learned["fixed"]["one"][0] == 1
    refused(r"returned updates of ema, and its changes would be lost: say LinenModel\(..., moving=\[...\]\)", forward,
            changed=["ema"])


def tied(tmp_path):
    def forward(self, ids, train):
        words = nn.Embed(40, 4, name="words")
        return words.attend(words(ids).mean(1))

    refused(r"a table is used otherwise than .*test_expectations.py:\d+.*make it a dense variable", forward)
    assert not trained(forward, dense=["params.words.embedding"])[0].parts.tables


def transformed(tmp_path):
    class Inner(nn.Module):
        @nn.compact
        def __call__(self, ids):
            return nn.Embed(40, 4, name="words")(ids).mean(1)

    def forward(self, ids, train):
        return nn.remat(Inner, prevent_cse=False)(name="inner")(ids)

    refused("outside of nn.remat, nn.scan and jax.jit: .* else make it a dense variable", forward)
    trained(forward, dense=["params.inner.words.embedding"])


def sown(tmp_path):
    def forward(self, ids, train):
        self.sow("intermediates", "x", x := embedded(self, ids, train))
        return x

    refused("returned updates of intermediates.*leave it out of what the loss returns", forward,
            changed=["intermediates"])
    trained(forward)


def no_gradient(tmp_path):
    def forward(self, ids, train):
        x = nn.Embed(40, 4, name="words")(ids)
        return x[:, 0] + jax.lax.stop_gradient(nn.Embed(40, 4, name="others")(ids)).sum((1, 2))[:, None]

    refused("not finite|is not the one that JAX alone computes|nan", forward)
    trained(forward, dense=["params.others.embedding"])


def looked_at(tmp_path):
    def loss(net):
        return lambda variables, batch: (net.apply(variables, batch.inputs, True) ** 2).sum() * (
            1 + hasattr(variables["params"]["words"]["embedding"], "ids"))

    refused("the loss of the first microbatch is not the one that JAX alone computes.*dense=", embedded, loss=loss)


def outside(tmp_path):
    def forward(self, ids, train):
        return embedded(self, ids - 1, train)

    refused("looks up . rows of params.words.embedding that do not exist: it has rows 0 to 39; look at", forward)


def means(tmp_path):
    def loss(net):
        return lambda variables, batch: ((net.apply(variables, batch.inputs, True).sum(1) - batch.targets) ** 2).mean()

    refused("the loss is a mean over the microbatch", embedded, loss=loss)


def run(model, output=None):
    return train(model, data_of(), comm=MPI.COMM_SELF, output=output,
                 options=Options(steps=2, optimizer="sgd", learning_rate=0.01))


class Base(nnx.Module):
    """A table and what else a trial adds: ``forward(module, rows of the ids)``."""

    def __init__(self, forward=lambda module, x: x.mean(1), **parts):
        self.words, self.forward = nnx.Embed(40, 4, rngs=nnx.Rngs(0)), forward
        for name, part in parts.items():
            setattr(self, name, part)

    def __call__(self, ids):
        return self.forward(self, self.words(ids))


def squares(module, batch):
    return ((module(batch.inputs).sum(1) - batch.targets) ** 2).sum()


def of_nnx(tmp_path):
    """A constant stays, a moving average moves, the module has what was learned, and a stream's keys are its own."""
    def forward(module, x):
        module.ema[...] = 0.9 * module.ema[...] + 0.1 * x.mean((0, 1))
        return module.dropout(x.mean(1) + module.one[...], rngs=module.streams)

    class Ema(nnx.Variable):
        pass

    def made(forward=forward):
        return Base(forward, ema=Ema(jnp.zeros(4)), one=nnx.Variable(jnp.ones(4)), dropout=nnx.Dropout(0.5),
                    streams=nnx.Rngs(0, dropout=1))

    module = made()
    assert isinstance(module.words.embedding, nnx.Param) and not issubclass(Ema, nnx.BatchStat)
    model = NnxModel(module, squares, moving=[Ema])
    before = np.asarray(module.words.embedding)
    run(model, tmp_path / "run")
    assert model.parts.tables == ("words.embedding",) and model.parts.constants == ("one",)
    assert not np.array_equal(module.words.embedding, before) and np.abs(module.ema).min() > 0
    assert NnxModel(made(), squares, moving=[Ema]).load(tmp_path / "run").words.embedding[0, 0] == (
        module.words.embedding[0, 0])
    with pytest.raises(CollectiveError, match=r"forward pass changes ema, .* NnxModel\(..., moving=\[Ema\]\)"):
        run(NnxModel(made(), squares))
    with pytest.raises(CollectiveError, match="leave jit out, as the whole loss is compiled"):
        run(NnxModel(made(), nnx.jit(squares), moving=[Ema]))
    with pytest.raises(ValueError, match="give NnxModel a flax.nnx.Module, and its loss"):
        NnxModel(squares, module)


def tied_nnx(tmp_path):
    def attend(module, x):
        return module.words.attend(x.mean(1))

    with pytest.raises(CollectiveError, match="a table is used otherwise .*test_expectations.py.*NnxModel.*dense="):
        run(NnxModel(Base(attend), squares))
    assert not NnxModel(Base(attend), squares, dense=["words.embedding"]).parts.tables


def of_equinox(tmp_path):
    eqx = pytest.importorskip("equinox")
    from refimpl.jax import EquinoxModel

    class Net(eqx.Module):
        words: eqx.nn.Embedding
        out: eqx.nn.Linear
        norm: eqx.nn.BatchNorm
        table: jax.Array

        def __init__(self):
            keys = jax.random.split(jax.random.key(0))
            self.words, self.out = eqx.nn.Embedding(40, 4, key=keys[0]), eqx.nn.Linear(4, 4, key=keys[1])
            self.norm, self.table = eqx.nn.BatchNorm(4, "examples", mode="ema"), jnp.arange(40)

        def __call__(self, ids, state):
            return self.norm(self.out(jax.vmap(self.words)(self.table[ids]).mean(0)), state)

    def loss(module, state, batch):
        out, state = jax.vmap(module, (0, None), (0, None), axis_name="examples")(batch.inputs, state)
        return ((out.sum(1) - batch.targets) ** 2).sum(), state

    module, state = eqx.nn.make_with_state(Net)()
    frozen = eqx.tree_at(lambda net: net.out.weight, jax.tree.map(eqx.is_inexact_array, module), False)
    model = EquinoxModel(loss, module, state, trained=frozen)
    assert model.parts.constants == ("out.weight", "table") and model.parts.tables == ("words.weight",)
    run(model, tmp_path / "run")
    learned, found = model.load(tmp_path / "run")
    assert np.array_equal(learned.out.weight, module.out.weight) and not np.array_equal(
        learned.out.bias, module.out.bias)
    assert not found.get(module.norm.ema_first_time_index)
    assert np.abs(found.get(module.norm.ema_state_index)[0]).min() > 0
    with pytest.raises(CollectiveError, match=r"a module with a state needs \(the sum of the losses, the new state\)"):
        run(EquinoxModel(lambda module, state, batch: loss(module, state, batch)[0], module, state))
    with pytest.raises(ValueError, match="give EquinoxModel a loss and an equinox.Module"):
        EquinoxModel(loss, loss)


def tied_equinox(tmp_path):
    eqx = pytest.importorskip("equinox")
    from refimpl.jax import EquinoxModel

    def shared(module, batch):
        embed, linear = module()
        x = jax.vmap(jax.vmap(embed))(batch.inputs).mean(1)
        return ((jax.vmap(linear)(x).sum(1) - batch.targets) ** 2).sum()

    key = jax.random.key(0)
    pair = eqx.nn.Embedding(40, 4, key=key), eqx.nn.Linear(4, 40, key=key)
    module = eqx.nn.Shared(pair, lambda pair: pair[1].weight, lambda pair: pair[0].weight)
    with pytest.raises(CollectiveError, match="a table is used otherwise .*EquinoxModel.*dense="):
        run(EquinoxModel(shared, module))
    assert run(EquinoxModel(shared, module, dense=["pytree.0.weight"])).steps == 2


def checkpointed(tmp_path):
    eqx = pytest.importorskip("equinox")
    from refimpl.jax import EquinoxModel

    def loss(module, batch):
        return squares(eqx.filter_checkpoint(lambda ids: jax.vmap(jax.vmap(module))(ids).mean(1)), batch)

    def squares(function, batch):
        return ((function(batch.inputs).sum(1) - batch.targets) ** 2).sum()

    run(EquinoxModel(loss, eqx.nn.Embedding(40, 4, key=jax.random.key(0))))


TRIALS = {
    "`nn.Embed`": embed, "`nn.BatchNorm`": batch_norm, "`nn.Dropout`, `make_rng`": dropout,
    "evaluation": evaluation, "other collections": collections,
    "a tied output layer (`attend`)": tied, "a table within `nn.remat` or `nn.scan`": transformed,
    "`sow`": sown, "a look-up without gradient (`stop_gradient`)": no_gradient,
    "a loss that looks at the type of a table": looked_at, "ids outside of a table": outside,
    "a loss that is a mean": means,
    "`NnxModel(module, loss)`": of_nnx, "nnx: a tied output layer (`attend`)": tied_nnx,
    "`EquinoxModel(loss, module, state)`": of_equinox, "equinox: `eqx.nn.Shared`": tied_equinox,
    "equinox: `eqx.filter_checkpoint`": checkpointed,
}


@pytest.mark.thorough("`nn.Embed`", "collections", "attend", "type of a table", "NnxModel", "EquinoxModel")
@pytest.mark.parametrize("name", TRIALS)
def test_an_expectation(name, tmp_path):
    TRIALS[name](tmp_path)


def test_each_row_has_a_trial_and_each_trial_a_row():
    assert list(table()) == list(TRIALS)


def test_a_rows_words_are_those_of_its_trial():
    for name, told in table().items():
        source = inspect.getsource(TRIALS[name]) + inspect.getsource(trained) + inspect.getsource(embedded)
        for code in re.findall("`([^`]*)`", name + told):
            for word in re.findall(r"[A-Za-z_]{3,}", code):
                assert word in source, (code, word)
    assert "teleport" not in inspect.getsource(tied)


@pytest.mark.thorough("after", "loop")
@pytest.mark.parametrize("name", ["before.py", "after.py", "loop.py"])
def test_the_scripts_of_the_page(name, tmp_path, monkeypatch):
    pytest.importorskip("optax")
    monkeypatch.chdir(tmp_path)
    net, *scripts = re.findall(r"```python\n# \w+\.py\n(.*?)```", PAGE, re.DOTALL)
    loop = re.search(r"```python\n(from refimpl.jax import Trainer\n.*?)```", PAGE, re.DOTALL)[1]
    before, after = scripts
    code = {"before.py": before, "after.py": after, "loop.py": "\n".join(after.splitlines()[:-2]) + f"\n{loop}"}[name]
    (tmp_path / "net.py").write_text(net)
    monkeypatch.syspath_prepend(tmp_path)
    found: dict = {}
    exec(code.replace("300", "3").replace("range(10)", "range(1)"), found)
    assert name != "after.py" or len(read_metrics(tmp_path / "runs/mine")) == 3
    assert name != "loop.py" or found["trainer"].updates == 32 and found["variables"]["params"]
