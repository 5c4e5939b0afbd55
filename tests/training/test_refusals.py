"""What options, model and plan may not be together: refused before the first step, with the remedy."""

import json

import pytest
from mpi4py import MPI
from toys import Toy, make_options, make_trainer, refusal, toy_data

from models import Variable
from refimpl.plan import make_plan
from refimpl.training.trainer import Trainer

SEARCH = dict(architecture="hybrid", search_partitions=True)
PLAN = json.loads(json.dumps(make_plan(Toy().variables, "hybrid", 1, 8).to_json()))
NOT_FOR_ROWS = "is for gradients of dense float32 variables, and 'table' is sparse"
REFUSED = [
    (dict(codec={"ghost": "bf16"}), "--codec ghost=bf16: the model has no such variables; say dense, sparse, or one of "
                                    "table, weight"),
    (dict(codec={"mean": "bf16"}), "'mean' is a buffer (statistic=True) without gradient"),
    (dict(codec={"sparse": "integers:16"}), f"codec integers {NOT_FOR_ROWS}; leave it out, or say bf16"),
    (dict(codec={"sparse": "topk"}), f"codec topk {NOT_FOR_ROWS}"),
    (dict(codec={"table": "onebit"}), f"codec onebit {NOT_FOR_ROWS}"),
    (dict(codec={"dense": "integers:8"}, microbatches=128), "128 microbatches do not fit into sums of 8 bits: say "
                                                            "integers:16 or 32, or give fewer --microbatches"),
    (dict(codec={"dense": "dgc:0.01:5:1"}), "--codec weight=dgc:0.01:5:1 has its own momentum"),
    (dict(codec={"dense": "dgc:0.01:5:1"}, optimizer="sgd"), "--clip-norm 0.05 would clip their sum once more: say "
                                                             "--clip-norm none, or leave out the norm"),
    (dict(codec={"dense": "dgc:0.01"}), "--codec weight=dgc:0.01 has its own momentum, and adam would change what it "
                                        "sends once more: say --optimizer sgd, or topk:0.01"),
    (dict(codec={"dense": "bf16"}, architecture="ps", consistency="asynchronous", clip_norm=None),
     "without barriers gradients are not encoded"),
    (dict(work="nmt", precision="bf16", optimizer="sgd"), "TranslationModel does not round what its layers put out"),
    (dict(precision="bf16", codec={"dense": "topk"}), "topk cannot encode gradients that overflow: say --codec dense=bf"),
    (dict(precision="bf16", codec={"dense": "integers:16"}), "integers:16 cannot encode gradients that overflow"),
    (dict(precision="bf16", consistency="asynchronous", architecture="ps", clip_norm=None), "leave --consistency out"),
    (dict(architecture="ps", memory_limit=100), "the memory limit is 100; spread them over more --partitions"),
    (dict(SEARCH, architecture="ps", memory_limit=10),
     "no number of partitions up to 50 keeps within the memory limit"),
    (dict(SEARCH, architecture="allreduce"), "no sparse variable of this model goes to the server"),
    (dict(architecture="allreduce", hot_rows=3), "--hot-rows: no sparse variable of this model goes to the server"),
    (dict(plan=PLAN, hot_rows=3), "--plan already says"),
    (dict(microbatches=3, allreduce="halving-doubling"), "--allreduce direct"),  # which would not be canonical
]


@pytest.mark.parametrize("changes, words", REFUSED)
def test_what_does_not_fit_is_refused(changes, words):
    how = {"work": "toy", "optimizer": "adam", "device": "cpu", **changes}
    assert words in refusal(MPI.COMM_SELF, lambda: make_trainer(how.pop("work"), how.pop("optimizer"), MPI.COMM_SELF,
                                                                **how))


@pytest.mark.parametrize("variables, words", [
    ([Variable("a", (2,)), Variable("a", (3,))], "2 variables are called 'a'"),
    ([Variable("a", (2, 2), sparse=True, statistic=True)], "sparse and a statistic"),
    ([Variable("a", (2,)), Variable("b", (2,), dtype="float64")], "use one dtype"),
])
def test_variables_that_no_strategy_carries(variables, words):
    model = Toy()
    model.variables = variables
    assert words in refusal(MPI.COMM_SELF, lambda: Trainer.open(
        model, toy_data(), make_options("toy", "adam"), MPI.COMM_SELF))
