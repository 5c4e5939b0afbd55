"""What the plan asks of a strategy: how a variable is kept, exchanged and paid for. One class each: refimpl.strategies.

A plan holds a strategy for each variable as a value: its fields are what plan.json says of it. Plan, prediction,
checks, reports and pictures ask the value or its class, and compare no names; to add a strategy is to add its file.
"""

from dataclasses import asdict, dataclass, field
from typing import Annotated, Any, Callable, ClassVar

import numpy as np
from msgspec import Meta

from refimpl.gradients import Layout
from refimpl.gradients.codecs import CODECS, IDENTITY, Codec, codec_of
from refimpl.server.partition import MOST_PARTITIONS

STRATEGIES: dict[tuple[str, bool], type["Strategy"]] = {}
"""(name, sparse) -> class, in the order in which exchanges of a step begin. Filled by ``refimpl.strategies``."""

Owners = Annotated[tuple[int, ...], Meta(max_length=MOST_PARTITIONS)]
"""The rank of each partition, as a plan's file may say it."""


@dataclass(frozen=True)
class Strategy:
    """What holds of a strategy if it says nothing else.

    name, sparse: what plans call it, and the kind of variable that it carries.  label: what pictures call it.
    keys: the (phase, kind) in which its bytes travel.  replicated: every rank keeps the whole variable.
    partitioned: there are partitions whose number and owners may change (``with_owners``).
    automatic: whether ``auto`` may choose it.
    in_groups: the members of a group of the mesh keep a part each, some of the rows.
    cut_together: who owns what of a variable depends on those that it is exchanged with.
    early: a sum may begin before all gradients are there (``Exchange.begin``).
    only_encoded: it carries the codecs that name it, and no others (``Codec.strategy``).
    exchange: exchange(placed, plan, comm, seed, xp, shared) makes its ``strategies.exchange.Exchange``, not opened yet.
    codec: how gradients are encoded when they travel, of ``refimpl.gradients.codecs``.
    """

    name: ClassVar[str] = ""
    sparse: ClassVar[bool] = False
    label: ClassVar[str] = ""
    colour: ClassVar[str] = "black"
    mark: ClassVar[str] = "o"
    keys: ClassVar[tuple[tuple[str, str], ...]] = ()
    replicated: ClassVar[bool] = True
    partitioned: ClassVar[bool] = False
    automatic: ClassVar[bool] = True
    in_groups: ClassVar[bool] = False
    cut_together: ClassVar[bool] = False
    only_encoded: ClassVar[bool] = False
    early: ClassVar[bool] = False
    exchange: ClassVar[type]

    codec: str = field(default=IDENTITY, kw_only=True)

    @property
    def coding(self) -> Codec:
        """The codec. Raises ValueError for a name that none has."""
        return codec_of(self.codec)

    # -- what a plan says of it

    @classmethod
    def place(cls, variable, load: list[float], partitions: int, scheme: str) -> "Strategy":
        """Return the strategy for a variable. load[r]: bytes that rank r owns so far; its own are added. Local."""
        return cls()

    @property
    def owners(self) -> tuple[int, ...]:
        """The rank that keeps each partition; () where every rank keeps everything."""
        return ()

    def to_json(self) -> dict:
        """Return its name and fields as plain data. Local."""
        return {"strategy": self.name, **asdict(self)}

    def check(self, variable, ranks: int):
        """Raise ValueError, with the remedy, unless a training on ``ranks`` ranks can follow it. Local."""
        if self.only_encoded and self.coding.strategy != self.name:
            fit = [codec.form or name for name, codec in CODECS.items() if codec.strategy == self.name]
            raise ValueError(f"strategy {self.name} does not carry codec {self.codec}: say {' or '.join(fit)}")
        codec_of(self.codec)
        for owner in self.owners:
            if type(owner) is not int or not 0 <= owner < ranks:
                raise ValueError(f"owner {owner!r} is none of the ranks 0 to {ranks - 1}")

    def parts(self, variable) -> list[tuple[Any, "Strategy"]]:
        """Return the variable and its strategy. A strategy that combines two returns both pairs. Local."""
        return [(variable, self)]

    @classmethod
    def joins(cls, variable: str) -> str:
        """Return a name: only variables of one such name may be exchanged together. Local."""
        return ""

    # -- what it costs

    def loads(self, variable, ranks: int, popularity=None):
        """Return the bytes that each partition is expected to serve in a step: (P,) float64; () without owners. Local.

        popularity: (rows,), how many times each row is pulled in a step; None: every row as often.
        """
        return np.empty(0)

    @classmethod
    def bytes_between(cls, placed: list, plan, touched: Callable) -> dict:
        """Return {(phase, variable, kind): (N, N) int64 bytes rank to rank} of variables exchanged together. Local.

        placed: (variable, strategy) of each.  touched(variable): (pulled, pushed), see ``plan.cost.bytes_between``.
        """
        raise NotImplementedError

    @classmethod
    def arena(cls, variables, codec: Codec = codec_of(IDENTITY)) -> Layout | None:
        """Return the arena that an allreduce sums for these variables; None: they are messages of their own. Local.

        codec: by which they are encoded there.
        """
        return None

    @classmethod
    def bucket_bytes(cls, least: int, ranks: int) -> int:
        """Return how many bytes of dense variables fill a bucket, ``least`` being enough for one message. Local."""
        return least

    def message_rounds(self, variable, ranks: int) -> int:
        """Return in how many rounds its rows travel. Local."""
        return 1

    def work(self, variable, plan, sample):
        """Return the bytes that each rank fills or updates in a step, beside adding up what comes: (N,). Local."""
        return np.full(plan.ranks, float(variable.nbytes))


def strategy_of(name: str, sparse: bool) -> type[Strategy]:
    """Return the class of that name for that kind of variable. Raises ValueError naming those there are. Local."""
    if (name, sparse) not in STRATEGIES:
        kind, known = "sparse" if sparse else "dense", ", ".join(names_of(sparse)) or "none: import refimpl.strategies"
        raise ValueError(f"no strategy {name!r} for a {kind} variable; there are {known}")
    return STRATEGIES[name, sparse]


def names_of(sparse: bool, automatic: bool = False) -> list[str]:
    """Return the names of the strategies for one kind of variable; automatic: of those that ``auto`` chooses from."""
    return [name for (name, kind), cls in STRATEGIES.items() if kind == sparse and (cls.automatic or not automatic)]
