"""Modules on a device: tensors stay there (DLPack), the same bits on any number of ranks. On CuPy's stand-in, or a GPU.
"""

import pytest
import torch
from mpi4py import MPI
from toy_modules import data_of, model_of

from refimpl.training.options import Options
from refimpl.training.session import train
from refimpl.training.trainer import Trainer

pytestmark = [pytest.mark.mpi, pytest.mark.ranks(1, 3), pytest.mark.usefixtures("cupy")]


def answer(name, comm, **changes):
    options = Options(device="cuda", optimizer="adam", learning_rate=0.01, steps=3, **changes)
    result = train(model_of(name, torch.float32), data_of(8, 2, torch.float32),
                   data_of(8, 2, torch.float32, shuffle=False), options=options, comm=comm)
    return result.loss, result.evaluation, result.parameters_sha256, result.state_sha256


@pytest.mark.parametrize("name", ["recommender", "tied"])
@pytest.mark.thorough
def test_several_ranks_give_the_answer_of_one(comm, name):
    one = answer(name, MPI.COMM_SELF) if comm.rank == 0 else None
    assert answer(name, comm, overlap=True) == comm.bcast(one)


def test_no_gradient_and_no_value_comes_to_the_host(comm, cupy):
    """What crosses in a step is numbers: the loss, the norm's digits, which rows were touched."""
    if not hasattr(cupy, "standin"):
        pytest.skip("the stand-in counts what crosses")
    options = Options(device="cuda", steps=3, architecture="allreduce")
    trainer = Trainer.open(model_of("recommender", torch.float32), data_of(8, 2, torch.float32), options, comm)
    trainer.train_step()  # which looks at all arrays
    with cupy.standin.counting() as count:
        trainer.train_step()
    sent = count.of("to_host") + count.of("number")
    assert sent and max(one.nbytes for one in sent) < 2048  # the losses, and the norm's digits
    assert max(one.nbytes for one in count.of("to_device")) < 2048  # batches and row numbers
