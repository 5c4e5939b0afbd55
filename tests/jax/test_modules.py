"""Modules of flax and equinox: a training is the plain loop of the same module, statistics and dropout too."""

import jax
import numpy as np
import pytest
from mpi4py import MPI
from jax_modules import INSTALLED, KINDS, RATE, STEPS, data_of, model_of

from refimpl.jax.parameters import named
from refimpl.training.options import Options
from refimpl.training.run.checkpoint import read_parameters
from refimpl.training.session import train


@pytest.mark.parametrize("kind", INSTALLED)
def test_a_training_is_the_plain_loop(kind, tmp_path):
    with jax.enable_x64(True):
        data, lines, model = data_of(dtype="float64"), [], model_of(kind, "float64")
        options = Options(steps=STEPS, optimizer="sgd", learning_rate=RATE)
        train(model, data, comm=MPI.COMM_SELF, options=options, output=tmp_path / "run",
              progress=lambda line: lines.append(line["loss"]))
        losses, learned = KINDS[kind][2](data, "float64")
        assert np.allclose(lines, losses, rtol=1e-11, atol=0) and len(set(losses)) == STEPS
        loaded, theirs = (arrays_of(kind, some) for some in (model.load(tmp_path / "run"), learned))
        ours = read_parameters(tmp_path / "run")
        assert ours.keys() == theirs.keys() and all(np.array_equal(ours[name], loaded[name]) for name in ours)
        for name, value in theirs.items():
            assert np.allclose(ours[name], value, rtol=1e-9, atol=1e-12), name
            assert not np.array_equal(ours[name], model.parts.leaves[name]), name


def arrays_of(kind, learned) -> dict:
    """Return variable -> value of what a plain loop learned, or of what ``load`` returns."""
    if kind == "nnx":
        from flax import nnx
        return learned if isinstance(learned, dict) else {
            ".".join(map(str, path)): v.get_value() for path, v in nnx.to_flat_state(nnx.state(learned))}
    if kind == "equinox":
        module, state = ({n: leaf for n, leaf in named(part)[0].items() if hasattr(leaf, "dtype")} for part in learned)
        return module | {f"state.{name}": leaf for name, leaf in state.items()}
    return named(learned)[0]


@pytest.mark.parametrize("kind", INSTALLED)
def test_what_is_a_table_and_what_is_a_statistic(kind):
    kinds = {v.name: (v.sparse, v.statistic) for v in model_of(kind).variables}
    assert [name for name, (sparse, _) in kinds.items() if sparse] == [name for name in kinds if "words" in name]
    assert sum(statistic for _, statistic in kinds.values()) == len(model_of(kind).parts.moving) >= 2
    words = next(name for name in kinds if "words" in name)
    assert not any(v.sparse for v in model_of(kind, dense=[words]).variables)


@pytest.mark.parametrize("kind", INSTALLED)
def test_recorded_look_ups_are_those_of_the_batch(kind):
    model, batch = model_of(kind), data_of().microbatch(0, 3)
    (ids,) = model.rows_needed(batch).values()
    assert ids.dtype == np.int64 and np.array_equal(ids, np.unique(batch.inputs))
