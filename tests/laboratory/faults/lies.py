"""The lies: what a user's model or data can do wrong, each with where it can be done and what must come of it.

A lie is told instead of an honest call: tell(honest, *arguments) returns what the call returns; honest() computes it.
"""

import os
import time
from dataclasses import dataclass
from typing import Callable

import numpy as np

from faults.subject import ROWS
from faults.trial import RANKS, draw_travel
from kernels import RowGradient
from models import Batch, Uniform, Variable

STEPS = 6  # of a lying model's training; it lies in one of the first four
FOR_EVER = 3600.0
CALLS = ("rows_needed", "loss_and_gradients", "evaluate", "microbatch", "examples", "starts_epoch")
EVERYWHERE, MODEL, GRADIENTS = (*CALLS, "variables"), CALLS[:2], CALLS[1:2]
KEPT: list[np.ndarray] = []
"""Arrays to which the model writes at its next call."""


@dataclass(frozen=True)
class Lie:
    """A way to misbehave. wheres: the calls in which it can be done.  tell: see above.

    alone: it can end or hold up its process: it needs a job of its own.  one: it is none where all ranks do it.
    honest: no lie: a control, which must come to the right answer.  harmless: why it may come to it, too.  silent: its
    rank stops answering: the others say so after the time-out.  first: it is told in the first step, which alone looks
    for it.
    """

    name: str
    wheres: tuple[str, ...]
    tell: Callable
    alone: bool = False
    one: bool = False
    honest: bool = False
    silent: bool = False
    first: bool = False
    harmless: str = ""


def _before(act):
    return lambda honest, *arguments: (act(*arguments), honest())[1]


def _raise(kind, *words):
    def act(*_):
        raise kind(*words)

    return act


def _hang(*_):
    while True:
        pass


def _barrier(*_):
    from refimpl.transport.job import all_ranks

    all_ranks().Barrier()


def _instead(change):
    return lambda honest, *_: change(honest())


def _loss(change):
    return _instead(lambda both: (change(both[0]), both[1]))


def _gradient(name, change):
    return _instead(lambda both: (both[0], {**both[1], name: change(both[1][name])}))


def _later(chosen):
    def tell(honest, dense, rows, batch):
        loss, gradients = honest()
        KEPT.extend(chosen(dense, rows, gradients))
        return loss, gradients

    return tell


def _of_dense(name, change):
    return Lie(f"gradient {name}", GRADIENTS, _gradient("weight", change))


def _of_rows(name, change):
    return Lie(name, GRADIENTS, _gradient("table", change))


def _of_ids(name, change):
    return Lie(f"ids {name}", ("rows_needed",), _instead(lambda needed: {"table": change(needed["table"])}))


def _before_gradients(name, act, **more):
    return Lie(name, GRADIENTS, _before(act), **more)


def _set(array, value):
    array[...] = value


def _others(ids):
    """Return as many sorted ids, one of which is not in ``ids``."""
    return np.sort(np.append(ids[1:], next(row for row in range(ROWS) if row not in ids)))


_ALL = (
    Lie("raises", EVERYWHERE, _before(_raise(ValueError, "a planted error"))),
    Lie("raises without words", EVERYWHERE, _before(_raise(RuntimeError))),
    Lie("sys.exit(0)", EVERYWHERE, _before(_raise(SystemExit, 0)), alone=True),
    Lie("sys.exit(words)", CALLS, _before(_raise(SystemExit, "a planted exit")), alone=True),
    Lie("os._exit(0)", CALLS, _before(lambda *_: os._exit(0)), alone=True, one=True),
    Lie("os._exit(3)", CALLS, _before(lambda *_: os._exit(3)), alone=True),
    Lie("KeyboardInterrupt", EVERYWHERE, _before(_raise(KeyboardInterrupt)), alone=True),
    Lie("loops for ever", CALLS, _before(_hang), alone=True, one=True, silent=True),
    Lie("sleeps", CALLS, _before(lambda *_: time.sleep(FOR_EVER)), alone=True, one=True, silent=True),
    Lie("Barrier of its own", CALLS, _before(_barrier), alone=True, one=True, silent=True),
    Lie("fork comes back", CALLS, _before(lambda *_: os.fork()), alone=True,
        harmless="the child is ended before it does anything"),
    Lie("loss is a string", GRADIENTS, _loss(str)), Lie("loss is None", GRADIENTS, _loss(lambda loss: None)),
    Lie("loss is an array", GRADIENTS, _loss(lambda loss: np.ones(2) * loss)),
    Lie("loss is complex", GRADIENTS, _loss(lambda loss: loss + 1j)),
    Lie("loss is NaN", GRADIENTS, _loss(lambda loss: float("nan"))),
    Lie("gradients are None", GRADIENTS, _instead(lambda both: (both[0], None))),
    _of_dense("is None", lambda g: None), _of_dense("is a string", lambda g: "gradient"),
    _of_dense("is masked", lambda g: np.ma.masked_array(g, mask=g > 0)),
    _of_dense("is of objects", lambda g: g.astype(object)),
    _of_dense("is of integers", lambda g: (100 * g).astype(np.int64)),
    _of_dense("is of float64", lambda g: g.astype(np.float64)), _of_dense("is transposed", lambda g: g.T),
    _of_dense("is one number", lambda g: np.float32(1)), _of_dense("is NaN", lambda g: g * np.float32("nan")),
    Lie("gradient is missing", GRADIENTS,
        _instead(lambda both: (both[0], {name: both[1][name] for name in ("table", "weight")}))),
    Lie("gradient too many", GRADIENTS, _instead(lambda both: (both[0], {**both[1], "wieght": both[1]["weight"]}))),
    _of_rows("rows are NaN", lambda g: RowGradient(g.ids, g.rows * np.float32("nan"))),
    _of_rows("rows are of float64", lambda g: RowGradient(g.ids, g.rows.astype(np.float64))),
    _of_rows("rows too narrow", lambda g: RowGradient(g.ids, g.rows[:, :2])),
    _of_rows("row gradient is dense", lambda g: np.ones((ROWS, 3), np.float32)),
    _of_rows("row gradient's ids unsorted", lambda g: RowGradient(g.ids[::-1], g.rows)),
    _of_rows("row gradient's ids twice", lambda g: RowGradient(np.repeat(g.ids, 2), np.repeat(g.rows, 2, axis=0))),
    _of_rows("row gradient's ids out of range", lambda g: RowGradient(g.ids + ROWS, g.rows)),
    _of_rows("row gradient's ids not asked for", lambda g: RowGradient(_others(g.ids), g.rows)),
    _of_ids("unsorted", lambda ids: ids[::-1]), _of_ids("out of range", lambda ids: np.append(ids, ROWS + 7)),
    _of_ids("negative", lambda ids: np.insert(ids, 0, -1)), _of_ids("of floats", lambda ids: ids + 0.25),
    _of_ids("None", lambda ids: None),
    Lie("ids for a dense variable", ("rows_needed",),
        _instead(lambda needed: {**needed, "weight": needed["table"][:1]})),
    Lie("ids forgotten", ("rows_needed",), _instead(lambda needed: {})), _of_ids("shrink", lambda ids: ids[:-1]),
    _before_gradients("writes into dense", lambda dense, rows, batch: _set(dense["weight"], 1)),
    _before_gradients("writes by np.add.at",  # which overlooks that an array of one axis is read-only
                      lambda dense, rows, batch: np.add.at(dense["weight"].reshape(-1), np.zeros(1, np.intp),
                                                           np.ones(1, np.float32)), first=True),
    _before_gradients("writes into rows", lambda dense, rows, batch: _set(rows["table"], 1)),
    Lie("writes into inputs", MODEL, _before(lambda *given: _set(given[-1].inputs, given[-1].inputs[0]))),
    _before_gradients("writes into targets", lambda dense, rows, batch: _set(batch.targets, 0)),
    Lie("writes into tables", ("evaluate",), _before(lambda dense, tables, batch: _set(tables["table"], 0))),
    Lie("keeps dense and writes later", GRADIENTS, _later(lambda dense, rows, gradients: [dense["weight"]])),
    Lie("keeps rows and writes later", GRADIENTS, _later(lambda dense, rows, gradients: [rows["table"]])),
    Lie("keeps gradients and writes later", GRADIENTS,
        _later(lambda dense, rows, gradients: [gradients["weight"], gradients["table"].rows])),
    _before_gradients("state is a string", lambda dense, rows, batch: batch.state.update(word="a string")),
    _before_gradients("state is an object", lambda dense, rows, batch: batch.state.update(word=object())),
    Lie("other initial values", ("variables",), one=True, tell=_instead(
        lambda v: [Variable(v[0].name, v[0].shape, sparse=True, initial=Uniform(0.25)), *v[1:]])),
    Lie("other shape", ("variables",), _instead(lambda v: [*v[:2], Variable("bias", (5,), decays=False)]), one=True),
    Lie("other order", ("variables",), _instead(lambda v: [v[1], v[0], v[2]]), one=True),
    Lie("strange initial", ("variables",), _instead(
        lambda v: [*v[:2], Variable("bias", (4,), decays=False, initial="zero")])),
    Lie("other normaliser", ("microbatch",), one=True, tell=_instead(
        lambda batch: Batch(batch.inputs, batch.targets, None, 2 * batch.normaliser)),
        harmless="a plan's sample reads microbatches, too, and does not use their normaliser"),
    Lie("microbatch left out", ("microbatch",), _instead(lambda batch: None), one=True),
    Lie("microbatch is a string", ("microbatch",), _instead(lambda batch: "batch")),
    Lie("other examples", ("examples",), _instead(lambda count: count + 1), one=True),
    Lie("examples a string", ("examples",), _instead(str)),
    Lie("other epoch", ("starts_epoch",), _instead(lambda starts: not starts), one=True),
    Lie("evaluates to None", ("evaluate",), _instead(lambda sums: None)),
    Lie("evaluates to strings", ("evaluate",), _instead(lambda sums: {name: str(sums[name]) for name in sums})),
    Lie("evaluates to NaN", ("evaluate",), _instead(lambda sums: {**sums, "loss": float("nan")})),
    Lie("none", GRADIENTS, lambda honest, *_: honest(), honest=True),
    Lie("loss of NumPy", GRADIENTS, _loss(np.float64), honest=True),
)
LIES = {lie.name: lie for lie in _ALL}
HONEST_SHARE = 0.1


def draw(rng) -> dict:
    """Return a lie: its name, the call, the step (or evaluation) at which it is told, the rank (None: all)."""
    honest = rng.random() < HONEST_SHARE
    lie = rng.choice([lie for lie in _ALL if lie.honest == honest])
    rank = rng.randrange(RANKS) if lie.one or rng.random() < 0.75 else None
    return {"lie": lie.name, "where": rng.choice(lie.wheres), "step": rng.randrange(1 if lie.first else 4),
            "rank": rank, **draw_travel(rng)}
