"""The lies: what a user's model or data can do wrong, each with where it can be done and what must come of it."""

from dataclasses import dataclass

from refimpl.experiments.faults.trial import RANKS

CALLS = ("rows_needed", "loss_and_gradients", "evaluate", "microbatch", "examples", "starts_epoch")
EVERYWHERE = (*CALLS, "variables")
STEPS = 6  # of a lying model's training; it lies in one of the first four


@dataclass(frozen=True)
class Lie:
    """A way to misbehave. wheres: the calls in which it can be done.

    alone: it can end or hold up its process: it needs a job of its own.  one: it is none where all ranks do it.
    honest: no lie: a control, which must come to the right answer.  harmless: why it may come to it, too.  silent: its
    rank stops answering: the others say so after the time-out.  first: it is told in the first step, which alone looks
    for it.
    """

    name: str
    wheres: tuple[str, ...]
    alone: bool = False
    one: bool = False
    honest: bool = False
    silent: bool = False
    first: bool = False
    harmless: str = ""


MODEL = ("rows_needed", "loss_and_gradients")
GRADIENTS = ("loss_and_gradients",)
_ALL = (
    Lie("raises", EVERYWHERE), Lie("raises without words", EVERYWHERE),
    Lie("sys.exit(0)", EVERYWHERE, alone=True), Lie("sys.exit(words)", CALLS, alone=True),
    Lie("os._exit(0)", CALLS, alone=True, one=True), Lie("os._exit(3)", CALLS, alone=True),
    Lie("KeyboardInterrupt", EVERYWHERE, alone=True),
    Lie("loops for ever", CALLS, alone=True, one=True, silent=True),
    Lie("sleeps", CALLS, alone=True, one=True, silent=True),
    Lie("Barrier of its own", CALLS, alone=True, one=True, silent=True),
    Lie("fork comes back", CALLS, alone=True, harmless="the child is ended before it does anything"),
    Lie("loss is a string", GRADIENTS), Lie("loss is None", GRADIENTS), Lie("loss is an array", GRADIENTS),
    Lie("loss is complex", GRADIENTS), Lie("loss is NaN", GRADIENTS),
    Lie("gradients are None", GRADIENTS), Lie("gradient is None", GRADIENTS), Lie("gradient is a string", GRADIENTS),
    Lie("gradient is masked", GRADIENTS), Lie("gradient is of objects", GRADIENTS),
    Lie("gradient is of integers", GRADIENTS), Lie("gradient is of float64", GRADIENTS),
    Lie("gradient is transposed", GRADIENTS), Lie("gradient is one number", GRADIENTS),
    Lie("gradient is NaN", GRADIENTS), Lie("gradient is missing", GRADIENTS), Lie("gradient too many", GRADIENTS),
    Lie("rows are NaN", GRADIENTS), Lie("rows are of float64", GRADIENTS), Lie("rows too narrow", GRADIENTS),
    Lie("row gradient is dense", GRADIENTS), Lie("row gradient's ids unsorted", GRADIENTS),
    Lie("row gradient's ids twice", GRADIENTS), Lie("row gradient's ids out of range", GRADIENTS),
    Lie("row gradient's ids not asked for", GRADIENTS),
    Lie("ids unsorted", ("rows_needed",)), Lie("ids out of range", ("rows_needed",)),
    Lie("ids negative", ("rows_needed",)), Lie("ids of floats", ("rows_needed",)), Lie("ids None", ("rows_needed",)),
    Lie("ids for a dense variable", ("rows_needed",)), Lie("ids forgotten", ("rows_needed",)),
    Lie("ids shrink", ("rows_needed",)),
    Lie("writes into dense", GRADIENTS), Lie("writes by np.add.at", GRADIENTS, first=True),
    Lie("writes into rows", GRADIENTS), Lie("writes into inputs", MODEL),
    Lie("writes into targets", GRADIENTS), Lie("writes into tables", ("evaluate",)),
    Lie("keeps dense and writes later", GRADIENTS), Lie("keeps rows and writes later", GRADIENTS),
    Lie("keeps gradients and writes later", GRADIENTS),
    Lie("state is a string", GRADIENTS), Lie("state is an object", GRADIENTS),
    Lie("other initial values", ("variables",), one=True), Lie("other shape", ("variables",), one=True),
    Lie("other order", ("variables",), one=True), Lie("strange initial", ("variables",)),
    Lie("other normaliser", ("microbatch",), one=True), Lie("microbatch left out", ("microbatch",), one=True),
    Lie("microbatch is a string", ("microbatch",)), Lie("other examples", ("examples",), one=True),
    Lie("examples a string", ("examples",)), Lie("other epoch", ("starts_epoch",), one=True),
    Lie("evaluates to None", ("evaluate",)), Lie("evaluates to strings", ("evaluate",)),
    Lie("evaluates to NaN", ("evaluate",)),
    Lie("none", ("loss_and_gradients",), honest=True), Lie("loss of NumPy", GRADIENTS, honest=True),
)
LIES = {lie.name: lie for lie in _ALL}
HONEST_SHARE = 0.1


def draw(rng) -> dict:
    """Return a lie: its name, the call, the step (or evaluation) at which it is told, the rank (None: all)."""
    honest = rng.random() < HONEST_SHARE
    lie = rng.choice([lie for lie in _ALL if lie.honest == honest])
    rank = rng.randrange(RANKS) if lie.one or rng.random() < 0.75 else None
    return {"lie": lie.name, "where": rng.choice(lie.wheres), "step": rng.randrange(1 if lie.first else 4),
            "rank": rank, "architecture": rng.choice(["hybrid", "ps", "allreduce"]),
            "overlap": rng.random() < 0.4, "shared_memory": rng.random() < 0.7, "mpi": rng.randrange(6)}
