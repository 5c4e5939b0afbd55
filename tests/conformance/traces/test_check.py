"""The check of a trace: right ones pass at every stage, wrong ones are located and named."""

from functools import cache

import numpy as np
import pytest
from trace_mutants import MUTANTS, CountedTwice, Dropped, EveryRow, OneByOne, RowsSwapped
from trace_peer import Peer

from refimpl.conformance.case import Rows
from refimpl.conformance.report import plain
from refimpl.conformance.semantics import Semantics
from refimpl.conformance.traces import check
from refimpl.conformance.traces.check import first_difference, judge_trace
from refimpl.conformance.traces.format import Trace
from refimpl.conformance.traces.golden import NAMES, golden

STAGES = [("aggregated", "state", "parameters"), ("aggregated",), ("parameters",), ("state", "parameters")]


def copy(trace) -> Trace:
    return Trace(dict(trace.head), {place: array.copy() for place, array in trace.arrays.items()})


def status(outcome) -> dict:
    return {v.stage: v.status for v in outcome.verdicts}


def located(outcome):
    """Return (diagnosis, stage, step) of the first difference."""
    verdict, finding = first_difference(outcome.verdicts)
    return verdict.diagnosis.code, verdict.stage, finding.step


@cache
def judged(mutant):
    """Return the outcome of a mutant's training, which several tests look at."""
    return judge_trace(mutant().train())


@pytest.mark.parametrize("precision", ["float32", "float64"])
@pytest.mark.parametrize("name", NAMES)
def test_our_own_trace_passes_to_the_bit(name, precision):
    outcome = judge_trace(golden(name, precision))
    assert set(status(outcome).values()) <= {"passed", "skipped"}
    findings = {v.stage: {f.comparison for f in v.findings} for v in outcome.verdicts}
    assert findings["aggregated"] == {"bits"} and findings["start"] == {"exact"} and findings["local"] == {"bound"}


@pytest.mark.parametrize("name, precision, stages", [
    *((name, precision, STAGES[0]) for name in NAMES for precision in ("float32", "float64")),
    *(("lm", "float32", stages) for stages in STAGES[1:])])
def test_another_order_of_summation_passes(name, precision, stages):
    outcome = judge_trace(Peer(name, precision).train(stages))
    assert not outcome.failed
    assert {s for s, v in status(outcome).items() if v == "passed"} == set(stages)
    assert any(f.worst_ulp for v in outcome.verdicts for f in v.findings)  # not our bits


@pytest.mark.parametrize("mutant, code, stage, step", MUTANTS.values(), ids=MUTANTS)
def test_mutants_are_located_and_named(mutant, code, stage, step):
    assert located(judged(mutant)) == (code, stage, step)


@pytest.mark.parametrize("name", [name for name, (_, code, *_) in MUTANTS.items()
                                  if code not in ("slots-not-kept", "order=any")])  # their parameters are right
@pytest.mark.thorough("dropped", "not clipped")
def test_mutants_are_seen_by_their_last_parameters_alone(name, monkeypatch):
    monkeypatch.setattr(check, "explain", lambda *arguments: None)  # which takes most of the time
    trace = MUTANTS[name][0]().train(("parameters",))
    trace.arrays = {p: a for p, a in trace.arrays.items() if p[1] == 3}
    assert judge_trace(trace).failed


def test_words_say_what_and_where():
    dropped = judged(Dropped).failed[0]
    assert dropped.diagnosis.words == "microbatch 1 was never counted"
    twice = judged(CountedTwice).failed[0]
    assert twice.diagnosis.words == "microbatch 0 was counted twice; microbatch 2 was never counted"
    swapped = judged(RowsSwapped).failed[0]
    ids = golden("lm", "float32").get("aggregated", 1, "softmax_weight").ids
    assert f"row {ids[2]} has what belongs to {ids[5]}" in swapped.diagnosis.evidence
    finding = next(f for f in swapped.findings if not f.ok)
    assert (finding.variable, finding.step, finding.element[0]) == ("softmax_weight", 1, ids[2])
    assert finding.worst_ulp > 100 and finding.worst_ratio > 1000


def test_what_follows_from_the_first_difference_says_so():
    first, second = judged(OneByOne).failed
    assert first.diagnosis.code == "one-by-one" and second.diagnosis is None
    assert second.why.endswith("the first difference is in state of step 0")


def test_an_update_is_judged_by_its_own_inputs():
    """Wrong sums, rightly applied: only the sums are to blame."""
    assert status(judged(RowsSwapped))["parameters"] == "passed"


def test_untouched_rows_with_momentum():
    """A zero gradient moves nothing under Adagrad: correct; that is why no mutant of lm decays untouched rows."""
    assert not judge_trace(EveryRow().train()).failed


@pytest.mark.parametrize("seed", range(24))
@pytest.mark.thorough("22", "3")
def test_one_wrong_number_is_found_where_it_is(seed):
    """Whatever it is, wherever it is; what it makes of later stages does not hide where it began."""
    random = np.random.default_rng(seed)
    trace = copy(golden(NAMES[seed % 2], ("float32", "float64")[seed // 2 % 2]))
    stage = ("local", "aggregated", "state", "parameters")[seed // 4 % 4]
    places = [p for p, a in trace.arrays.items() if p[0] == stage and p[4] != "ids" and a.size]
    place = places[random.integers(len(places))]
    array = trace.arrays[place].reshape(-1)
    at = random.integers(array.size)
    array[at] = (np.nan, np.inf, array[at] + 0.01, array[at] * 1e30 + 1)[random.integers(4)]
    verdict, finding = first_difference(judge_trace(trace).verdicts)
    assert (verdict.stage, finding.step) == place[:2] and finding.variable.split(" ")[0] == place[3]
    assert stage != "local" or finding.rank == place[2]


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.thorough("0", "3", "5")  # each model in each precision
def test_correct_implementations_are_never_accused(seed):
    """Sums over microbatches in any order; averages of local means; some stages and steps handed in."""
    class Any(Peer):
        semantics = Semantics(name="any", dense="sum", sparse="sum", order="any")

        def locals(self, v, step):
            parts = super().locals(v, step)
            return [parts[i] for i in np.random.default_rng([seed, step]).permutation(len(parts))]

    random = np.random.default_rng(seed)
    trace = Any(NAMES[seed % 2], ("float32", "float64")[seed // 2 % 2]).train()
    stages = {(stage, step) for stage in ("aggregated", "state", "parameters") for step in range(4)
              if random.random() < 0.6}
    lost = {place[:4] for place in sorted(trace.arrays, key=str) if random.random() < 0.05}
    trace.arrays = {place: a for place, a in trace.arrays.items() if place[:2] in stages and place[:4] not in lost}
    outcome = judge_trace(trace)
    assert not outcome.failed, [v.why for v in outcome.failed]


def scaled(trace, step, factors):
    """Multiply each microbatch's gradients in a step."""
    for place, array in trace.arrays.items():
        if place[:2] == ("local", step) and place[4] != "ids":
            array *= np.float32(factors[place[2]])


def with_swapped_microbatches(trace):
    for v in trace.head["variables"]:
        pair = [trace.get("local", 1, v["name"], m) for m in (0, 3)]
        for m, part in zip((3, 0), pair):
            trace.add("local", 1, v["name"], part, m)


def with_noise(trace):
    for place, array in trace.arrays.items():
        if place[:3] == ("local", 3, 4) and place[4] != "ids":
            array += np.float32(1e-6)


def with_swapped_rows(trace):
    rows = trace.arrays["local", 2, 1, "softmax_weight", "rows"]
    rows[[0, 1]] = rows[[1, 0]]


def with_another_start(trace):
    trace.arrays["start", None, None, "embedding", "value"][3, 1] += 1e-3


def metric(what, change):
    """Change a metric of step 1. change(number, the step before's, trace) -> number."""
    def with_it(trace):
        before, place = (("metrics", step, None, what, "value") for step in (0, 1))
        trace.arrays[place] = np.float64(change(trace.arrays[place], trace.arrays[before], trace))

    return with_it


def squares(trace, kinds):
    """Return the sum of squares of the summed gradients of step 1, of dense ones (value) or rows."""
    return sum((array.astype(np.float64) ** 2).sum() for place, array in trace.arrays.items()
               if place[:2] == ("aggregated", 1) and place[4] in kinds)


def with_carried(change):
    """Change what is carried into step 2. change(array, microbatch, trace) -> array."""
    def with_it(trace):
        old = copy(trace)
        for place, array in old.arrays.items():
            if place[:2] == ("carried", 2):
                trace.arrays[place] = change(array, place, old.arrays)

    return with_it


def with_turned_start(trace):
    for place, array in trace.arrays.items():
        if place[0] == "start" and place[3] == "lstm0/kernel":
            trace.arrays[place] = array.ravel("F").reshape(array.shape)


@pytest.mark.thorough("start", "carried-2-is 0", "times-n", "microbatches", "buffer", "rows-swapped", "no-examples")
@pytest.mark.parametrize("name, change, code, stage, step, words", [
    ("lm", metric("loss", lambda x, before, trace: 5 * x), "loss-times-n", "metrics", 1, "the loss is multiplied by N"),
    ("lm", metric("loss", lambda x, before, trace: before), "loss-stale", "metrics", 1, "of the step before"),
    ("cnn", metric("gradient_norm", lambda x, before, trace: x**2), "norm-squared", "metrics", 1, "without its root"),
    ("cnn", metric("gradient_norm", lambda x, before, trace: min(x, trace.head["training"]["clip"])), "norm-clipped",
     "metrics", 1, "the clipped gradient"),
    ("cnn", metric("gradient_norm", lambda x, before, trace: squares(trace, ["value"])**0.5), "norm-with-statistics",
     "metrics", 1, "running statistics"),
    ("lm", metric("gradient_norm", lambda x, before, trace: squares(trace, ["value"])**0.5), "clip_norm=dense",
     "metrics", 1, "dense gradients alone"),
    ("lm", with_carried(lambda array, place, arrays: 0 * array), "zeroed", "carried", 2, "is 0"),
    ("lm", with_carried(lambda array, place, arrays: arrays[place[0], 1, *place[2:]]), "buffer-reused", "carried", 2,
     "the carried state is that of the step before"),
    ("lm", with_carried(lambda array, place, old: old[*place[:2], {0: 1, 1: 0}.get(m := place[2], m), *place[3:]]),
     "microbatches-swapped", "carried", 2, "microbatch 0 has the carried state of microbatch 1"),
    ("lm", with_turned_start, "order-of-axes", "start", None, "Fortran"),
    ("lm", with_swapped_microbatches, "microbatches-swapped", "local", 1,
     "microbatch 0 has the gradients of microbatch 3"),
    ("lm", with_swapped_rows, "rows-swapped", "local", 2, ""),
    ("cnn", lambda trace: scaled(trace, 1, [5] * 5), "multiplied-by-n", "local", 1, ""),
    ("cnn", lambda trace: scaled(trace, 2, [7 / 3, 7 / 3, 7]), "loss=mean-of-means", "local", 2, ""),
    ("lm", with_noise, "unexplained", "local", 3, ""),
    ("lm", lambda trace: trace.add("local", 2, "lstm0/bias", np.ones(48, np.float32), 4), "no-examples", "local", 2,
     "has no examples"),
    ("lm", with_another_start, "unexplained", "start", None, "")])
def test_a_change_of_ours_is_located_and_named(name, change, code, stage, step, words):
    change(trace := copy(golden(name, "float32")))
    outcome = judge_trace(trace)
    assert located(outcome) == (code, stage, step) and words in outcome.failed[0].diagnosis.words
    assert plain(outcome)["diagnoses"][0]["snippet"] == ""  # there is no adapter to call


def test_parameters_alone(monkeypatch):
    monkeypatch.setattr(check, "explain", lambda *arguments: None)  # which takes most of the time
    trace = copy(golden("lm", "float32")).only(("parameters",))
    assert not judge_trace(trace).failed
    trace.arrays["parameters", 3, None, "softmax_bias", "value"][7] += 1e-4
    assert status(judge_trace(trace))["training"] == "failed"


def with_averages_of_local_means(trace):
    """A microbatch's gradient N times ours, then averaged: the same training."""
    trace.head["semantics"] = Semantics(name="averages").to_json()
    for step in range(4):
        scaled(trace, step, [5] * 5)


def with_unmerged_local_rows(trace):
    for (stage, step, m, name, part), ids in list(trace.arrays.items()):
        if (stage, name, part) == ("local", "embedding", "ids"):
            rows = trace.get(stage, step, name, m).rows
            trace.add(stage, step, name, Rows(np.concatenate([ids, ids])[::-1], np.concatenate([rows, rows])[::-1] / 2),
                      m)


@pytest.mark.parametrize("change", [with_averages_of_local_means, with_unmerged_local_rows])
def test_a_change_that_means_the_same_passes(change):
    change(trace := copy(golden("lm", "float32")))
    assert not judge_trace(trace).failed


def refused(change, words, name="lm"):
    trace = Peer(name).train()
    change(trace)
    with pytest.raises(ValueError, match=words):
        judge_trace(trace)


def test_refusals():
    refused(lambda t: t.head.update(edition="0" * 64), "export it again")
    other = dict(golden("lm", "float32").head["training"], clip=0.5)
    refused(lambda t: t.head.update(training=other), "training.clip = 0.5; ours was made with 0.065")
    refused(lambda t: t.head.update(variables=[]), r"variables = \[\]; ours was made with")
    refused(lambda t: t.add("parameters", 1, "nobody", np.zeros(2)), "no variable 'nobody'")
    refused(lambda t: t.add("parameters", 9, "lstm0/bias", np.zeros(48, np.float32)), "steps 0 to 3")
    refused(lambda t: t.add("parameters", 1, "lstm0/bias", np.zeros(48)), "float64 .* expected float32")
    refused(lambda t: t.add("parameters", 1, "lstm0/bias", np.zeros(47, np.float32)), "expected float32 .48.")
    refused(lambda t: t.add("aggregated", 1, "lstm0/bias", np.zeros(48, np.float32), 2), "only local gradients")
    refused(lambda t: t.add("metrics", 9, "loss", np.zeros(())), "no such array")
    refused(lambda t: t.add("metrics", 1, "loss", np.zeros(5)), r"\[5\]; expected \[\]")
    turned = np.zeros((12, 2), np.float32)
    refused(lambda t: t.add("carried", 1, "lstm0/c", turned, 0), r"\[12, 2\]; expected \[2, 12\]")
    for ids, words in (([50], "50 rows"), ([5, 5], "more than once")):
        rows = Rows(np.array(ids), np.zeros((len(ids), 8), np.float32))
        refused(lambda t, rows=rows: t.add("aggregated", 1, "embedding", rows), words)
    counted = Semantics(sparse="per-row-count").to_json()
    refused(lambda t: t.head.update(joined_at="model", semantics=counted), "has other numbers than this trace")
    refused(lambda t: t.head.update(trace="resnet"), "no golden trace 'resnet'; there are cnn, lm")
