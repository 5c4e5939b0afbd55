"""What a training without barriers cannot be: refused in words, with what to do instead."""

from dataclasses import replace

import pytest
from toys import Toy, make_options

from refimpl.plain.without_barriers.consistencies import is_decentralised
from refimpl.plan.make import make_plan
from refimpl.training.consistency.check import check_consistency

NO_BARRIERS = ("asynchronous", "local:1")
REFUSED = [
    ("sometimes", {}, "no consistency is called 'sometimes': write one of synchronous, asynchronous, bou"),
    ("gosip", {}, "no consistency is called 'gosip': .* easgd:PERIOD, gossip, local:E"),
    ("bounded:-1", {}, "bounded:-1: S must be a whole number, from 0 on"),
    ("backup:4", {}, "backup:4: B must be a whole number, from 0 to 3, with 4 workers"),
    ("softsync:0", {}, "softsync:0: n must be a whole number, from 1 to 4"),
    ("easgd:0", {}, "easgd:0: PERIOD must be a whole number, from 1 on"),
    ("easgd:6", {}, "in 5 steps the replicas would never move the centre, .* give a PERIOD of at most 5"),
    ("local:-1", {}, "E must be a whole number, from 1 on"), ("local:x", {}, "E must be a whole number"),
    ("local", {}, "write local:E"), ("gossip:2", {}, "gossip:2: write gossip$"), ("easgd", {}, "write easgd:PERIOD"),
    *((rule, changes, words) for rule in NO_BARRIERS for changes, words in (
        ({"clip_norm": 1.0}, "say --clip-norm none"), ({"average_sparse": False}, "leave --sum-sparse out"),
        ({"search_partitions": True}, "leave it out"), ({"overlap": True}, "leave --overlap out"),
        ({"optimizer": "lars"}, "lars needs norms of whole variables in each update: say --optimizer momentum or adam"),
        ({"scale_rate": 4}, "an update has the gradients of some workers only: leave --scale-rate out"),
        ({"slow_rank": {"4": 2.0}}, "--slow-rank 4: there are ranks 0 to 3"),
        ({"device": "cuda"}, "say --device cpu"), ({"mesh": (1, 4)}, f"{rule} cannot be used on a mesh, .*, or say 4x1"),
        ({"microbatches": 3}, "4 workers share 3 microbatches, and each needs one: give --microbatches 4 or more"))),
    ("asynchronous", {"correction": "staleness-aware"}, "take sgd or momentum"),
    ("asynchronous", {"correction": "magic"}, "no correction is called 'magic'"),
    ("synchronous", {"correction": "dc-asgd"}, "say --consistency asynchronous"),
    ("gossip", {"correction": "dc-asgd"}, "gossip has no server: leave it out"),
    ("asynchronous", {"architecture": "allreduce"}, "table travels by allgather: say --architecture ps"),
    ("gossip", {"architecture": "hybrid"}, "a whole replica on every rank; table travels by server: say --architecture "
                                           "allreduce"),
    ("easgd:2", {"architecture": "ps"}, "say --architecture allreduce"),
    ("gossip", {"allreduce": "ring"}, "allreduce ring adds up 4 replicas in another order than the tree's, and the "
                                      "result would depend on it: say --allreduce direct"),
]


def check(rule, microbatches=8, mesh=(), **changes):
    architecture = changes.pop("architecture", "allreduce" if is_decentralised(rule) else "ps")
    options = make_options("toy", **{"optimizer": "adam", "clip_norm": None, "steps": 5, "device": "cpu",
                                     "consistency": rule, **changes})
    plan = make_plan(Toy().variables, architecture, 4, microbatches, allreduce=options.allreduce,
                     local_aggregation=False)
    check_consistency(options, replace(plan, consistency=rule, mesh=mesh), microbatches, options.device)


@pytest.mark.parametrize("rule, changes, words", REFUSED)
def test_what_cannot_be_is_refused_with_the_remedy(rule, changes, words):
    with pytest.raises(ValueError, match=words):
        check(rule, **changes)


@pytest.mark.parametrize("rule", [*NO_BARRIERS, "synchronous", "backup:3", "easgd:5"])
def test_what_can_be(rule):
    check(rule)
