"""A plan that someone edited: what would not work is refused, with what would."""

import copy
import json

import pytest

from models import Variable
from refimpl.plan import make_plan
from refimpl.plan.plan import Plan
from refimpl.plan.validate import check_plan, read_plan
from refimpl.training.consistency import CONSISTENCIES
from refimpl.transport.machines import in_blocks

VARIABLES = [Variable("rows", (12, 5), sparse=True), Variable("dense", (8,)), Variable("bias", ())]
MACHINES = in_blocks(4, 2)
GOOD = json.loads(json.dumps(make_plan(VARIABLES, "hybrid", 4, 8, machines=MACHINES).to_json()))


def followed(data, ranks=4, microbatches=8, machines=MACHINES):
    return check_plan(Plan.from_json(data), VARIABLES, ranks, microbatches, machines,
                      consistencies=CONSISTENCIES)


def edited(**changes):
    """changes: of the plan, or of a placement ("rows__strategy"), which then has no fields but those said."""
    data = copy.deepcopy(GOOD)
    for placement in data["placements"]:
        if f"{placement['variable']}__strategy" in changes:
            for field in set(placement) - {"variable", "sparse", "codec"}:
                del placement[field]
    for name, value in changes.items():
        variable, _, field = name.partition("__")
        if field:
            next(p for p in data["placements"] if p["variable"] == variable)[field] = value
        else:
            data[name] = value
    return data


def test_a_plan_is_followed_as_it_is():
    assert followed(GOOD) == make_plan(VARIABLES, "hybrid", 4, 8, machines=MACHINES)
    for changes in (dict(rows__owners=[3]), dict(rows__owners=[0, 0, 3, 1, 2], rows__scheme="interleaved"),
                    dict(rows__strategy="as-dense"), dict(rows__strategy="allgather"),
                    dict(bias__strategy="server", bias__owners=[2]), dict(bias__strategy="reduce-scatter"),
                    dict(allreduce="hierarchical"),
                    dict(buckets=[["bias", "dense"], ["rows"]]), dict(local_aggregation=False),
                    dict(local_aggregation=False, pull_rounds=3),
                    dict(rows__strategy="hot-rows", rows__owners=[1], rows__scheme="interleaved", rows__hot=12,
                         rows__replica="allgather")):
        assert json.loads(json.dumps(followed(edited(**changes)).to_json())) == edited(**changes)


@pytest.mark.parametrize("changes, words", [
    (dict(rows__strategy="allreduce"),
     "plan: rows: no strategy 'allreduce' for a sparse variable; there are server, hot-rows, allg"),
    (dict(dense__strategy="as-dense"),
     "plan: dense: no strategy 'as-dense' for a dense variable; there are elements, messages, "),
    (dict(bias__strategy="reduce-scatter", bias__owners=[1]), "plan: bias: Object contains unknown field 'owners'"),
    (dict(rows__strategy="reduce-scatter"), "plan: rows: no strategy 'reduce-scatter' for a sparse variable; there"),
    (dict(architecture="../elsewhere"), "the plan's architecture is '../elsewhere'; say allreduce, ps, hybrid or auto"),
    (dict(rows__sparse=False),
     "rows: Object contains unknown field 'scheme' - at `$.placements[0]`; it has codec, owners"),
    (dict(rows__owners=[]), "plan, rows: owners []; on the server a sparse variable has at least one owner"),
    (dict(rows__owners=[0] * 70_000), "plan: rows: Expected `array` of length <= 65536 - at `$.placements[0].owners`"),
    (dict(rows__owners=[0, 4]), "plan, rows: owner 4 is none of the ranks 0 to 3"),
    (dict(rows__owners=[-1]), "plan, rows: owner -1 is none of the ranks 0 to 3"),
    (dict(rows__owners=[True]), "plan: rows: Expected `int`, got `bool` - at `$.placements[0].owners[0]`"),
    (dict(dense__strategy="server", dense__owners=[0, 1]), "on the server a dense variable has exactly one owner"),
    (dict(dense__owners=[1]), "dense: Object contains unknown field 'owners' - at `$.placements[1]`; it has codec"),
    (dict(rows__scheme="random"), "plan, rows: no partition scheme 'random'; there are contiguous, interleaved"),
    (dict(allreduce="telepathy"), "plan: allreduce 'telepathy': no allreduce algorithm"),
    (dict(ranks=5),
     "the plan is for 5 ranks, this training has 4; make it again for 4, or go without one (--plan none)"),
    (dict(microbatches=9), "the plan is for 9 microbatches, this training has 8"),
    (dict(machines=[[0, 1, 2, 3]]),
     "the plan is for machines with ranks [[0, 1, 2, 3]], here they have [[0, 1], [2, 3]]"),
    (dict(rows__variable="table"), "the plan places table, which the model lacks; its variables are rows, dense, bias"),
    (dict(buckets=[["rows"], ["dense"]]), "buckets must name each variable once; look at bias"),
    (dict(rows__strategy="hot-rows", rows__owners=[0], rows__hot=2.5),
     "rows: Expected `int`, got `float` - at `$.placements[0].hot`"),
    (dict(rows__strategy="hot-rows", rows__owners=[0], rows__hot=13), "plan, rows: 13 hot rows; give a whole number"),
    (dict(rows__strategy="hot-rows", rows__owners=[0], rows__hot=3, rows__replica="server"),
     "plan, rows: hot rows cannot go 'server'; give as-dense or allgather"),
    (dict(rows__codec="gzip"), "plan, rows: no codec 'gzip'; there are identity, bf16, fp16, integers:8|16|32"),
    (dict(consistency="eventual"), "plan: no consistency eventual; there are synchronous"),
    (dict(pull_rounds=0), "plan: pull_rounds is 0; rows are pulled in 1 to 8 rounds"),
    (dict(local_aggregation=False, pull_rounds=9), "plan: pull_rounds is 9; rows are pulled in 1 to 8 rounds"),
    (dict(pull_rounds=2), "pull_rounds is 2, but the ranks of a machine pull together in one round; give 1, or"),
    (dict(format=1), "plan: format 1: this version reads format 4; edit that, or make it again with"),
    (dict(local_aggregation="no"), "plan: Expected `bool`, got `str` - at `$.local_aggregation`"),
    (dict(placements=[{"variable": "rows"}]), "plan: Object missing required field `sparse` - at `$.placements[0]`"),
    (dict(placements=[{"variable": "rows", "sparse": True, "owners": [0]}]),
     "plan: Object missing required field `strategy` - at `$.placements[0]`"),
    (dict(buckets=[["dense", "bias"], [["rows"]]]), "plan: Expected `str`, got `array` - at `$.buckets[1][0]`"),
    (dict(colour="red"), "plan: Object contains unknown field 'colour' - at `$`; it has architecture, ranks"),
    (dict(rows__colour="red"),
     "plan: rows: Object contains unknown field 'colour' - at `$.placements[0]`; it has codec, owners, scheme"),
])
def test_what_would_not_work_is_refused(changes, words):
    with pytest.raises(ValueError) as caught:
        followed(edited(**changes))
    assert words in str(caught.value)


def test_every_variable_is_placed_once():
    more, fewer = copy.deepcopy(GOOD), copy.deepcopy(GOOD)
    more["placements"].append(more["placements"][1])
    with pytest.raises(ValueError, match="places dense more than once"):
        followed(more)
    fewer["placements"].pop(0)
    with pytest.raises(ValueError, match="no placement for rows; every variable needs one"):
        followed(fewer)


def test_files_that_hold_no_plan(tmp_path):
    path = tmp_path / "plan.json"
    path.write_text("{")
    with pytest.raises(ValueError, match="plan.json is damaged, or not a plan: it is not JSON: .*; make one with"):
        read_plan(path)
    path.write_text('{"model": "lm"}')
    with pytest.raises(ValueError, match="plan.json: plan: format None: this version reads format 4; edit that"):
        read_plan(path)
    with pytest.raises(OSError, match="cannot read the plan .*none.json: No such file or directory; make one with"):
        read_plan(tmp_path / "none.json")
    path.write_text(json.dumps(GOOD))
    assert read_plan(path) == GOOD
