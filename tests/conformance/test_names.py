"""Kinds of mistake that are named, each planted in the reference adapter by other code than the deviation's."""

from dataclasses import replace

import numpy as np
import pytest

from mutants.mutant import planted
from mutants.run import cases_for
from refimpl.conformance.adapters.reference import Reference
from refimpl.conformance.case import Rows
from refimpl.conformance.diagnose import summary
from refimpl.conformance.runner import run_local
from refimpl.plain.adding.rows import aggregate_rows
from refimpl.plain.adding.sums import norm_of
from refimpl.plain.updating.optimizers_elsewhere import EVERY


def said(make, names, ranks=4):
    """Return (code, words) of each diagnosis in the cases whose names begin so."""
    cases = [case for case in cases_for(ranks, "") if case.name.startswith(names)]
    return [(d.code, d.words) for d, _ in summary(run_local(make, ranks, cases).failed)]


def merged(part, divisor=1):
    """Return a gradient over a number, the rows that share an id added."""
    return aggregate_rows(Rows, part[0], part[1] / divisor) if isinstance(part, tuple) else part / divisor


def _in_buffers(key, one_call=False):
    """Results lie in buffers. key(name, number of the call) -> of which.  one_call: the next call makes new ones."""
    def aggregate_dense(self, right, arrays):
        self.calls, found = vars(self).get("calls", 0) + 1, right(arrays)
        kept = {} if one_call else vars(self).setdefault("kept", {})
        for name, array in found.items():
            found[name] = kept.setdefault((key(name, self.calls), array.shape, array.dtype), np.empty_like(array))
            found[name][...] = array
        return found

    return planted(aggregate_dense=aggregate_dense)


def _added_to(self, right, gradients, shapes):
    """Rows are added to those of earlier calls."""
    found, kept = right(gradients, shapes), vars(self).setdefault("kept", {})
    for name, (ids, rows) in found.items():
        kept[name] = merged((np.concatenate([kept.get(name, (ids[:0],))[0], ids]),
                             np.concatenate([kept[name][1], rows]) if name in kept else rows))
    return {name: kept[name] for name in found}


def _bags_over(count):
    """A bag's mean is divided by another number. count(rows of a bag, without padding)."""
    def aggregate_bags(self, right, bags, shapes, pooling, padding):
        wrong = {}
        for name, (ids, offsets, g) in bags.items():
            own = [part[part != padding] for part in np.split(ids, offsets[1:])]
            factors = [max(1, len(part)) / count(part) for part in own] if pooling == "mean" else np.ones(len(own))
            wrong[name] = ids, offsets, g * np.array(factors, g.dtype)[:, None]
        return right(wrong, shapes, pooling, padding)

    return planted(aggregate_bags=aggregate_bags)


def _with_option(name, change):
    """An optimizer with another number. change(number, ranks)."""
    return planted(formula=lambda self, right, task, v: right(replace(task, options={
        **task.options, name: change(task.options[name], self.world.size)}) if name in task.options else task, v))


class LastReduced(Reference):
    """no_sync as it is not meant: what was there before the last micro-step is not reduced."""

    def accumulated(self, task, window):
        self.earlier = [super().accumulated(task, window[:-1])] if len(window) > 1 else []
        return super().accumulated(task, window[-1:])

    def aggregated(self, task, local):
        return {name: merged(self.joined([g, *(own[name] for own in self.earlier)]), np.float32(1 + len(self.earlier)))
                for name, g in super().aggregated(task, local).items()}


class ClippedEach(Reference):
    """clip_grad_norm_ after each backward pass of a window."""

    def accumulated(self, task, window):
        self.window = window
        return super().accumulated(task, window)

    def clipped(self, task, total, local):
        parts, n = [], np.float32(len(self.window))
        for step in self.window if task.clip else ():
            own = {name: merged(g, n) for name, g in super().accumulated(task, [step]).items()}
            parts.append(super().clipped(task, self.aggregated(task, own), None))
        return {name: merged(self.joined([part[name] for part in parts])) for name in total} if parts else total


class ShardNorm(Reference):
    """Each rank clips by the squares of what it keeps."""

    def scale(self, task, gradients, apart):
        rank, size = self.world.rank, self.world.size
        own = [g[1][g[0] % size == rank] if isinstance(g, tuple) else np.array_split(g.ravel(), size)[rank]
               for g in gradients.values()]
        norm = np.sqrt(sum((x.astype(np.float64) ** 2).sum() for x in own))
        return dict.fromkeys(gradients, self.clip_factor(task.clip, norm))


def _dense_often(self, right, task, gradients, apart):
    size = self.world.size
    norm = norm_of({n: Rows(*g) if isinstance(g, tuple) else g * np.sqrt(size) for n, g in gradients.items()},
                   self.semantics)
    return dict.fromkeys(gradients, self.clip_factor(task.clip, norm))


class InGroups(Reference):
    """Ranks 0 and 1 average, rank 2 by itself, then both."""

    def mean(self, arrays, divisor=None):
        if len(arrays) < 3:
            return super().mean(arrays, divisor)
        return ((super().mean(arrays[:2], 2).astype(np.float64) + arrays[2]) / 2).astype(arrays[0].dtype)

    def merge(self, parts):
        ids, rows = super().merge([(i, r * (1 if at < 2 else 2)) for at, (i, r) in enumerate(parts)])
        return ids, rows * rows.dtype.type(0.75)


def _rows_in_buffers(self, right, gradients, shapes):
    """Rows lie in one buffer for each variable."""
    found, kept = right(gradients, shapes), vars(self).setdefault("kept", {})
    for name, (ids, rows) in found.items():
        buffer = kept.setdefault(name, np.zeros((64, rows.shape[1]), rows.dtype))
        buffer[:len(ids)] = rows
        found[name] = ids, buffer[:len(ids)]
    return found


def _split_by_first(self, right, gradients, shapes):
    """Rows of all variables travel together, and every rank takes rank 0's numbers of rows for everybody's."""
    first = self.present(gradients)[0]
    together = [np.concatenate(parts) for parts in zip(*(g for g in gradients.values() if g is not None))]
    result, at = {}, 0
    for name in gradients:
        count = len(first[name][0])
        result[name] = tuple(x[at:at + count] for x in together)
        at += count
    return right(result, shapes)


def _left_out(self, right, arrays):
    """Each rank packs what it has; the sum of the buffers is unpacked as if all had everything."""
    like = self.present(arrays)[0]
    flat = np.concatenate([a.ravel() for a in arrays.values() if a is not None])
    size = sum(a.size for a in like.values())
    found = right({"": np.concatenate([flat, np.zeros(size - flat.size, flat.dtype)])})[""]
    parts = np.split(found, np.cumsum([a.size for a in like.values()])[:-1])
    return {name: part.reshape(like[name].shape) for name, part in zip(arrays, parts)}


def _stale_where_absent(self, right, gradients):
    """A rank sends what lies in its buffer, whether it has a gradient or not."""
    kept = vars(self).setdefault("kept", {})
    kept |= {name: g for name, g in gradients.items() if g is not None}
    return right({name: kept.get(name) for name in gradients})


def _unpacked_by_name(self, right, arrays):
    """One buffer, filled in the order in which gradients came, and read in order of name."""
    flat, names = right({"": np.concatenate([a.ravel() for a in arrays.values()])})[""], sorted(arrays)
    parts = np.split(flat, np.cumsum([arrays[name].size for name in names])[:-1])
    return {name: part.reshape(arrays[name].shape) for name, part in zip(names, parts)}


def _places_for_ranks(self, right, arrays, group):
    everyone = self.world.allgather(arrays)[:len(group)]
    return {n: self.mean([g[n] for g in everyone]) for n in arrays} if self.world.rank in group else {}


def _padded_rows(self, right, gradients, shapes):
    """Rows travel in messages of one length, filled up with the last one under number 0."""
    everyone, result = self.world.allgather(gradients), {}
    for name, (ids, rows) in gradients.items():
        more = max(len(g[name][0]) for g in everyone) - len(ids) if len(ids) else 0
        result[name] = np.concatenate([ids, np.zeros(more, ids.dtype)]), np.concatenate([rows, *[rows[-1:]] * more])
    return right(result, shapes)


def _without_remainder(self, right, task, variable, gradient):
    limit = variable.shape[0] // self.world.size * self.world.size
    if variable.sparse:
        right(task, variable, tuple(a[gradient[0] < limit] for a in gradient))
    else:
        flat = np.array(gradient)
        flat.reshape(-1)[flat.size // self.world.size * self.world.size:] = 0
        right(task, variable, flat)


def _state_first(self, right, task, variable, gradient):
    before = self.values[variable.name].copy()
    right(task, variable, gradient)
    self.values[variable.name] = before
    right(task, variable, gradient)


def _resumed(change):
    return planted(load=lambda self, right, task, saved: (right(task, saved), change(self, task)))


def _zeroed(self, task):
    for state in self.state.values():
        for array in state.values():
            array[...] = 0


def _items_lost(self, task):
    self.state["items"] = self.first_state(task, self.values)["items"]


def _ticking(what):
    def tick(self, right, window):
        right(window)
        setattr(self, what, getattr(self, what) + len(window) - 1)

    return planted(tick=tick)


class HoldersMean(Reference):
    """Who has no gradient of a variable does not take part, and is not counted."""

    def present(self, gradients):
        self.holders = {n: [g[n] for g in self.world.allgather(gradients) if g[n] is not None] for n in gradients}
        return super().present(gradients)

    def aggregate_dense(self, arrays):
        super().aggregate_dense(arrays)
        return {n: self.mean(parts) for n, parts in self.holders.items()}


def _none_is_no_gradient(self, right, arrays):
    self.world.allgather(sum(a.nbytes for a in arrays.values()))
    return right(arrays)


class AheadTwice(EVERY["nesterov"]):
    def step(self, v, g, rate):
        return rate * (1 + self.mu) * g + rate * self.mu**2 * v


class DecayedLast(EVERY["adamw"]):
    def decayed(self, p, g, rate, decay):
        return p.copy(), g

    def update(self, p, state, g, rate, t):
        super().update(p, state, g, rate, t)
        p -= rate * self.decay * p


class DecayedTwice(EVERY["adamw"]):
    def decayed(self, p, g, rate, decay):
        return p - rate * decay * p, EVERY["sgd"].decayed(EVERY["adam"](), p, g, rate, decay)[1]


class ByDampening(EVERY["dampened"]):
    def dampened(self, g, t):
        return g if t == 1 else self.dampening * g


def _formula(name, kind):
    return planted(formula=lambda self, right, task, v: kind(**task.options) if task.optimizer == name
                   else right(task, v))


PLANTED = (
    ("view-of-buffer", _in_buffers(lambda name, call: name), "dense/"),
    ("view-of-buffer", planted(aggregate_rows=_rows_in_buffers), "rows/steps"),
    ("view-of-buffer", _in_buffers(lambda name, call: (name, call % 2)), "dense/"),  # two, in turn
    ("buffer-shared", _in_buffers(lambda name, call: ""), "dense/"),
    ("buffer-shared", _in_buffers(lambda name, call: "", one_call=True), "dense/"),
    ("not-cleared", planted(aggregate_rows=_added_to), "rows/steps"),
    ("repeats-counted-once", _bags_over(lambda rows: max(1, len(set(rows)))), "bags/"),
    ("bag-miscounted", _bags_over(lambda rows: max(1, len(rows)) + 1), "bags/"),
    ("decay-doubled", _with_option("decay", lambda decay, ranks: 2 * decay), "update/"),
    ("decay-times-n", _with_option("decay", lambda decay, ranks: ranks * decay), "update/"),
    ("beta2-usual", _with_option("beta2", lambda beta2, ranks: 0.999), "update/"),
    ("counts-of-rank-0", planted(aggregate_rows=_split_by_first), ("rows/prov", "rows/exact", "rows/empty-on-f")),
    ("absent-stale", planted(present=_stale_where_absent), "dense/"),
    ("absent-left-out", planted(aggregate_dense=_left_out), "dense/absent"),
    ("live-values", planted(update=lambda self, right, task: [(seen := right(task))[-1]] * len(seen)), "clip/"),
    ("window-partly-reduced", LastReduced, "accumulate/"),
    ("rate-per-micro-step", _ticking("updates"), "accumulate/"),
    ("clock-per-micro-step", _ticking("clock"), "accumulate/"),
    ("clipped-each-micro-step", ClippedEach, "accumulate/"),
    ("norm-of-shard", ShardNorm, "accumulate/"),
    ("norm-dense-n-times", planted(scale=_dense_often), "accumulate/"),
    ("rate-twice", _resumed(lambda self, task: setattr(self, "updates", 2 * self.updates)), "resume/"),
    ("clock-twice", _resumed(lambda self, task: setattr(self, "clock", 2 * self.clock)), "resume/"),
    ("state-zeroed", _resumed(_zeroed), "resume/"),
    ("slots-twice", planted(apply_one=_state_first), "accumulate/"),
    ("remainder-not-updated", planted(apply_one=_without_remainder), "accumulate/"),
    ("group-ranks-as-places", planted(aggregate_group=_places_for_ranks), "group/"),
    ("offsets-differ", planted(aggregate_dense=_unpacked_by_name), "dense/"),
    ("padding-added", planted(aggregate_rows=_padded_rows), "rows/"),
    ("divided-by-holders", HoldersMean, "dense/"),
    ("absent-gradient", planted(aggregate_dense=_none_is_no_gradient), "dense/"),
    ("dampened-dampened", _formula("dampened", ByDampening), "update/"),
    ("nesterov-momentum", _formula("nesterov", EVERY["momentum"]), "update/"),
    ("nesterov-ahead-twice", _formula("nesterov", AheadTwice), "update/"),
    ("adamw-decayed-after", _formula("adamw", DecayedLast), "update/"),
    ("adamw-decayed-twice", _formula("adamw", DecayedTwice), "update/"),
)


@pytest.mark.parametrize("code, make, names", PLANTED, ids=[code for code, *_ in PLANTED])
@pytest.mark.thorough("view", "counts-of", "partly", "each", "shard", "rate-twice", "slots", "remainder", "places",
                      "offsets", "padding", "holders", "absent", "ahead", "decayed")
def test_a_kind_of_mistake_is_named(code, make, names):
    found = said(make, names)
    assert code in {name for name, _ in found}, found
    assert not any("unexplained" in name for name, _ in found), found


@pytest.mark.parametrize("names", [("dense/", "rows/", "mixed/"), "update/sgd"])
def test_means_of_unequal_groups_are_named(names):
    assert {code for code, _ in said(InGroups, names, 3)} == {"mean-of-group-means"}


def test_what_is_lost_of_one_variable_says_of_which():
    assert said(_resumed(_items_lost), "resume/momentum")[0] == (
        "state-lost", "the optimizer's state is lost on resuming, of items alone")


def _divided_again(which):
    """Rows are divided by N once more. which(how many ranks push each) -> of which rows."""
    def merge(self, right, parts):
        ids, rows = right(parts)
        return Rows(ids, np.where(which(sum(np.isin(ids, own) for own, _ in parts))[:, None], rows / rows.dtype.type(
            self.world.size), rows))

    return planted(merge=merge)


@pytest.mark.parametrize("which, scopes", [
    (lambda ranks: ranks > 1, [", of rows alone that several ranks push"]),
    (lambda ranks: ranks == 1, [", of rows alone that a single rank pushes"]),
    (lambda ranks: ranks > 0, ["", ", of row gradients alone"])], ids=["several", "single", "every"])
@pytest.mark.thorough("several")
def test_a_mistake_in_rows_that_ranks_share_is_named_with_the_rows(which, scopes):
    """And one in every row says nothing of these."""
    found = said(_divided_again(which), ("rows/exact", "update/sgd"), 3)
    assert found == [("divided-again", f"sums are divided by N once more{scope}") for scope in scopes]


class OnShared(Reference):
    """Rows that several ranks push are updated twice."""

    def apply_one(self, task, variable, gradient):
        if variable.sparse:
            ranks = sum(np.isin(gradient[0], own[variable.name][0]) for own in self.everyone)
            super().apply_one(task, variable, Rows(*(part[ranks > 1] for part in gradient)))
        super().apply_one(task, variable, gradient)


def _one_of_several(self, right, parts):
    """The first pushes are overwritten by the last one: a row is written, not added."""
    ids, rows = np.unique(np.concatenate([own for own, _ in parts])), {}
    for own, gradient in parts:
        rows |= dict(zip(*aggregate_rows(Rows, own, gradient)))
    return Rows(ids, np.array([rows[k] for k in ids]).reshape(len(ids), -1) / np.float32(self.world.size))


@pytest.mark.parametrize("names", [("rows/exact", "rows/duplicates", "rows/last"), "update/"], ids=["sums", "updates"])
def test_a_row_that_the_last_rank_overwrites_is_named(names):
    assert said(planted(merge=_one_of_several), names, 3) == [
        ("last-rank-counts", "of a row that several ranks push, only the last rank's gradient counts: it overwrites "
         "those of the others")]


@pytest.mark.parametrize("names", ["update/momentum-rate", "update/adam", "resume/adagrad"])
@pytest.mark.thorough("adagrad")
def test_a_mistake_in_updates_of_rows_that_ranks_share_is_named_with_the_rows(names):
    """It acts inside the run: such a row keeps what was done to it."""
    assert said(OnShared, names, 3)[0] == (
        "updated-twice", "every update is done twice, of rows alone that several ranks push")


class FasterResumed(Reference):
    def load(self, task, saved):
        super().load(task, saved)
        self.resumed = True

    def rate(self, task, updates):
        return super().rate(task, updates) * (2 if getattr(self, "resumed", False) else 1)


@pytest.mark.parametrize("make, names, code, words", [
    (planted(rate=lambda self, right, task, updates: right(task, updates) * (1 if updates else 2)), "update/ada",
     "rate-doubled", "the learning rate is twice as large, in the first step alone"),
    (planted(accumulated=lambda self, right, task, window: {
        n: (g[0], -g[1]) if isinstance(g, tuple) else -g for n, g in right(task, window).items()}
        if self.updates == 1 else right(task, window)), "accumulate/", "negated",
     "the result changes its sign, in the second step alone"),
    (FasterResumed, "resume/momentum", "rate-doubled", "the learning rate is twice as large, from the third step on")])
@pytest.mark.thorough("FasterResumed")
def test_a_mistake_in_some_steps_is_named_with_the_step(make, names, code, words):
    """It acts inside the run: later steps go on from what it has left."""
    assert said(make, names, 3)[0] == (code, words)
