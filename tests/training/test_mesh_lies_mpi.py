"""What a model of one's own may not do in its parts: said in the same words on one rank and on a mesh, by all ranks."""

import numpy as np
import pytest
from mpi4py import MPI
from test_mesh_mpi import answer, data, options
from toys import DEVICE, raising

from kernels.arrays import array_module
from models import Variable
from models.perceptron import Perceptron
from models.variable import Uniform
from refimpl.training.trainer import Trainer
from refimpl.transport import Communicator

pytestmark = [pytest.mark.mpi(min_size=2), pytest.mark.ranks(4)]


class Own(Perceptron):
    """features: x @ pre.weight.  change(what, returned, ready) -> what a part returns in its place, where ``here``."""

    def __init__(self, change=lambda what, returned, ready: returned, here=True):
        super().__init__(10, (16, 8), 3, 4, 0.75)
        self.variables = [Variable("pre.weight", (10, 10), initial=Uniform(0.5)), Variable("pre.bias", (10,)),
                          *self.variables]
        self.change = change if here else lambda what, returned, ready: returned

    def features(self, dense, batch):
        x, targets, saved = super().features(dense, batch)
        return self.change("features", (x @ dense["pre.weight"] + dense["pre.bias"], targets, x), None)

    def features_backward(self, grad, saved, dense, ready):
        return self.change("backward", {"pre.weight": saved.T @ grad, "pre.bias": grad.sum(axis=0)}, ready)

    def loss(self, logits, targets, normaliser):
        return self.change("loss", super().loss(logits, targets, normaliser), None)


def part(name, change):
    """Return a change of what one part returns."""
    return lambda what, returned, ready: change(returned) if what == name else returned


def features(change):
    return part("features", lambda returned: (change(returned[0]), *returned[1:]))


def logits(change):
    return part("loss", lambda returned: (returned[0], change(returned[1])))


def written_later(what, returned, ready):
    if what == "backward":
        ready({"pre.weight": returned["pre.weight"]})
        returned["pre.weight"] += 1
    return returned


def another(what, returned, ready):
    if what == "backward":
        ready({"pre.weight": returned["pre.weight"] + 1})
    return returned


def writes_to_a_batch(what, returned, ready):
    if what == "features":
        np.add.at(returned[1], (0, 0), 1)  # past NumPy's flag
    return returned


EVERYWHERE = {
    "two things": (part("features", lambda r: r[:2]), "Own.features returned tuple: it must return three things"),
    "float64": (features(lambda x: x.astype("float64")), "the x that Own.features returned is float64 (3, 10)"),
    "a list": (features(lambda x: x.tolist()), "the x that Own.features returned is builtins.list: it must be float32"),
    "wide": (features(lambda x: array_module(x).concatenate([x, x], axis=1)), "it must be float32 (n, 10)"),
    "an error": (part("loss", raising(RuntimeError("no loss today"))), "RuntimeError: no loss today"),
    "no loss": (part("loss", lambda r: None), "Own.loss returned NoneType: it must return two things"),
    "a loss that is an array": (part("loss", lambda r: (np.ones(3), r[1])), "it must be one real number"),
    "float64 logits": (logits(lambda g: g.astype("float64")), "the gradient of the logits that Own.loss returned is "),
    "fewer logits": (logits(lambda g: g[:-1]), "it must be float32 (3, 3)"),
    "nothing back": (part("backward", lambda r: None), "Own.features_backward returned NoneType"),
    "one is missing": (part("backward", lambda r: {"pre.bias": r["pre.bias"]}), "which differs in ['pre.weight']"),
    "a cut layer's": (part("backward", lambda r: r | {"fc1.bias": r["pre.bias"]}), "differs in ['fc1.bias']"),
    "float64 back": (part("backward", lambda r: r | {"pre.bias": r["pre.bias"].astype("float64")}),
                     "the gradient of 'pre.bias' is float64 (10,), not float32 (10,)"),
    "written later": (written_later, "the gradient of 'pre.weight' in microbatch {v} was ready, and then was written"),
    "another gradient": (another, "the gradient of 'pre.weight' in microbatch {v} was ready, then another one")}
"""Name -> (what the model does, words of the refusal)."""

MESH_ALONE = {
    "fewer rows": (part("features", lambda r: tuple(one[:-1] for one in r)), "Own.features returned 2 rows in "
                   "microbatch {v}, of which 3 examples count")}


def said(comm, change, here, mesh):
    trainer = Trainer.open(Own(change, here), data(), options(mesh=mesh), comm)
    with pytest.raises(Exception) as caught:
        trainer.train_step()
    return str(caught.value)


@pytest.mark.parametrize("cases", [EVERYWHERE, MESH_ALONE], ids=["everywhere", "on a mesh"])
def test_what_parts_return_is_looked_at(comm, cases):
    last, mesh = comm.rank == comm.size - 1, f"1x{comm.size}"
    first = 16 // comm.size * (comm.size - 1)
    for name, (change, words) in cases.items():
        found = said(Communicator.of(comm.Dup(), timeout=60), change, last, mesh)
        assert f"rank {comm.size - 1}: " in found and words.format(v=first) in found, (name, found)
        if cases is EVERYWHERE:
            assert words.format(v=0) in said(MPI.COMM_SELF, change, True, None), name


def test_who_writes_to_a_batch_is_told(comm):
    if DEVICE == "cpu":  # on a GPU it has a copy
        for on, mesh in ((comm, f"1x{comm.size}"), (MPI.COMM_SELF, None)):
            found = said(Communicator.of(on.Dup(), timeout=60), writes_to_a_batch, True, mesh)
            assert "has written to batch.targets in microbatch" in found


def test_layers_in_any_order_of_memory_are_the_same(comm):
    """What enters the connected layers, and the gradient of the logits, may lie in memory as a model likes.

    On a GPU the model's own product and sum add in another order then.
    """
    def model():
        return Own(lambda what, returned, ready: tuple(
            array_module(one).asfortranarray(one) for one in returned) if what == "features" else returned)

    alone, on = answer(MPI.COMM_SELF, model=Own, device="cpu"), {"model": model, "device": "cpu"}
    assert answer(MPI.COMM_SELF, **on) == answer(comm, mesh=f"1x{comm.size}", **on) == alone
