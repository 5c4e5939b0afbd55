"""What was learned goes back into the module: all keys that ``load_state_dict`` wants, tied and frozen ones, too."""

import numpy as np
import pytest
import torch
from mpi4py import MPI
from toy_modules import LOSSES, Recommender, data_of, model_of, module_of

from kernels.random import key_of
from models import Variable
from refimpl.torch import Normal, TorchModel
from refimpl.training.options import Options
from refimpl.training.run.checkpoint import read_parameters
from refimpl.training.session import train


@pytest.mark.parametrize("name", LOSSES)
def test_a_module_gets_what_was_learned(name, tmp_path):
    model, before = model_of(name), module_of(name).state_dict()
    train(model, data_of(), options=Options(steps=2), comm=MPI.COMM_SELF, output=tmp_path / "run")
    learned = read_parameters(tmp_path / "run")
    fresh = module_of(name)
    fresh.load_state_dict(model.state_dict(learned))
    again = model_of(name)
    again.load(tmp_path / "run")
    for module in (fresh, model.module, again.module):
        state = module.state_dict()
        assert all(np.array_equal(state[key], learned[key]) for key in learned)
        assert state.keys() == before.keys()
        assert any(not torch.equal(state[key], before[key]) for key in state)
    if name == "tied":
        assert model.module.out.weight is model.module.words.weight


def test_a_result_without_files_is_what_its_model_has():
    model = model_of("recommender")
    first = train(model, data_of(), options=Options(steps=2), comm=MPI.COMM_SELF)
    model.load(first)
    second = train(model, data_of(), options=Options(steps=2), comm=MPI.COMM_SELF)  # from there on
    assert second.parameters_sha256 != first.parameters_sha256
    model.load(second)
    with pytest.raises(ValueError, match=r"wrote no files .*has other values than it ended with. Train with output="):
        model.load(first)


def test_a_run_of_another_module(tmp_path):
    train(model_of("tied"), data_of(), options=Options(steps=1), comm=MPI.COMM_SELF, output=tmp_path / "run")
    with pytest.raises(ValueError, match=r"another module: it has .*words.weight \(40, 4\), where .* has hidden.bias"):
        model_of("recommender").load(tmp_path / "run")


def test_a_table_on_the_meta_device_gets_its_rows(tmp_path):
    with torch.device("meta"):
        tables = Recommender()
    module = module_of("recommender")
    module.items, module.tags = tables.items, tables.tags
    model = TorchModel(module, LOSSES["recommender"][1])
    result = train(model, data_of(), options=Options(steps=2), comm=MPI.COMM_SELF)
    with pytest.raises(ValueError, match="items.weight, tags.weight is on the meta device: no rank has it whole"):
        model.load(result)
    train(model, data_of(), options=Options(steps=2), comm=MPI.COMM_SELF, output=tmp_path / "run")
    model.load(tmp_path / "run")
    assert model.names_to_keep == [v.name for v in model.variables]
    assert not module.items.weight[0].any() and abs(module.items.weight[1:].std() - 1) < 0.3
    assert np.array_equal(module.tags.weight.detach(), read_parameters(tmp_path / "run")["tags.weight"])


def test_normal_numbers_are_a_function_of_the_place():
    start, key = Normal(2.0, zeros=(30, 40)), key_of("test")
    values = start.elements(key, 0, 100_000)
    assert np.array_equal(start.elements(key, 25, 17), values[25:42]) and not values[30:40].any() and values[40]
    assert abs(values.mean()) < 0.03 and abs(values.std() - 2) < 0.02 and 7 < abs(values).max() < 12
    assert np.array_equal(Variable("a", (50, 2), initial=start).initial_rows(3, 7, 20), Variable(
        "a", (50, 2), initial=start).initial_value(3)[7:20])


def test_evaluation_is_of_the_module_in_evaluation_mode():
    module, data = module_of("recommender"), data_of(shuffle=False)
    result = train(TorchModel(module, LOSSES["recommender"][1]), data_of(), data, options=Options(steps=0),
                   comm=MPI.COMM_SELF)
    module.eval()
    items = [data.microbatch(step, v) for step in range(3) for v in range(8)]
    with torch.no_grad():
        wanted = sum(float(((module(tuple(map(torch.from_numpy, b.inputs))) - torch.from_numpy(b.targets))**2).sum())
                     for b in items if b is not None)
    assert result.evaluation["loss"] == pytest.approx(wanted / 46, rel=1e-12) and result.evaluation["count"] == 46


def test_an_evaluation_of_ones_own():
    def evaluate(module, batch):
        assert not module.training
        return {"loss": 1.0, "count": len(batch.targets), "correct": len(batch.targets) // 2 * 0}

    model = model_of("recommender", evaluate=evaluate)
    assert train(model, data_of(), data_of(), options=Options(steps=0), comm=MPI.COMM_SELF).evaluation["accuracy"] == 0
