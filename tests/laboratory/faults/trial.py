"""A trial as plain data: drawn from (seed, number) alone, so that one can be repeated; and what came of it."""

import importlib
import random
from dataclasses import dataclass, field

from faults import KINDS

SHARES = (3, 4, 3)
"""How many of ten trials are of each of KINDS."""
RANKS = 3


@dataclass(frozen=True)
class Trial:
    """One trial. kind: of KINDS.  what: what is done, as the kind's module says; plain JSON values."""

    seed: int
    number: int
    kind: str
    what: dict = field(default_factory=dict)

    @property
    def name(self) -> str:
        """Its number and what is done, in a line."""
        return f"{self.number} {self.kind}: " + ", ".join(f"{name} {value}" for name, value in self.what.items())


def draw(seed: int, number: int) -> Trial:
    """Return a trial. Local; the same on every machine."""
    rng = random.Random(f"refimpl faults {seed} {number}")
    kind = rng.choices(KINDS, SHARES)[0]
    what = importlib.import_module(f"{__package__}.{kind}").draw(rng)
    return Trial(seed, number, kind, what)


def draw_travel(rng) -> dict:
    """Return how a trial's gradients travel, and which interpreter runs it."""
    return {"architecture": rng.choice(["hybrid", "ps", "allreduce"]), "overlap": rng.random() < 0.4,
            "shared_memory": rng.random() < 0.7, "mpi": rng.randrange(6)}


ENDS = ("refused in words", "right answer", "ended by signal", "not made", "hang", "silent acceptance", "other end")


@dataclass
class Outcome:
    """What came of a trial.

    end: of ENDS; "not made": no lie was told, no signal delivered.  faults: what must not be, e.g. "hang", "traceback";
    empty: none.  seconds: until it had ended.  words: what was said.  shared: files of /dev/shm that it left; the next
    start removes them, or they are a fault.
    """

    trial: Trial
    end: str
    faults: list[str]
    seconds: float
    words: str = ""
    shared: list[str] = field(default_factory=list)
