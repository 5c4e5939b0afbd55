"""The interface of a strategy: how a variable is kept, exchanged and paid for. Each strategy is a class in strategies/.

A plan holds a strategy object for each variable; its fields are written to plan.json. Plan, prediction, checks, reports
and pictures call its methods, and never compare names. So to add a strategy is to add its file.
"""

from dataclasses import asdict, dataclass, field
from typing import Annotated, Any, Callable, ClassVar

import numpy as np
from msgspec import Meta

from refimpl.gradients import Layout
from refimpl.gradients.codecs import CODECS, IDENTITY, Codec, codec_of
from refimpl.server.partition import MOST_PARTITIONS

STRATEGIES: dict[tuple[str, bool], type["Strategy"]] = {}
"""(name, sparse) -> class, in the order in which the exchanges of a step begin. ``refimpl.strategies`` fills it."""

Owners = Annotated[tuple[int, ...], Meta(max_length=MOST_PARTITIONS)]
"""The rank of each partition, in a form that can be read from a plan's file."""


@dataclass(frozen=True)
class Strategy:
    """The base class of strategies, with the most frequent answers.

    name, sparse: its name in plans, and the kind of variable that it carries.  label: its name in pictures.
    keys: the (phase, kind) under which its bytes are counted.  replicated: every rank keeps the whole variable.
    partitioned: it has partitions, whose number and owners may change (``with_owners``).
    automatic: ``auto`` may choose it.
    in_groups: each member of a group of the mesh keeps some of the rows.
    cut_together: the owners of a variable depend on the variables that it is exchanged with.
    early: a sum may begin before all gradients are there (``Exchange.begin``).
    only_encoded: it carries only the codecs that name it (``Codec.strategy``).
    exchange: exchange(placed, plan, comm, seed, xp, shared) returns its ``strategies.exchange.Exchange``, not opened
    yet.
    codec: how gradients are encoded for the network, a name of ``refimpl.gradients.codecs``.
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
        """The codec object. Raises ValueError for an unknown codec."""
        return codec_of(self.codec)

    # -- what a plan says of it

    @classmethod
    def place(cls, variable, load: list[float], partitions: int, scheme: str) -> "Strategy":
        """Return the strategy for a variable, and add its bytes to load[r], the bytes that rank r owns. Local."""
        return cls()

    @property
    def owners(self) -> tuple[int, ...]:
        """The owner of each partition; () if every rank keeps the whole variable."""
        return ()

    def to_json(self) -> dict:
        """Return its name and fields as plain data. Local."""
        return {"strategy": self.name, **asdict(self)}

    def check(self, variable, ranks: int):
        """Raise ValueError, with the remedy, unless a training on ``ranks`` ranks can use it. Local."""
        if self.only_encoded and self.coding.strategy != self.name:
            fit = [codec.form or name for name, codec in CODECS.items() if codec.strategy == self.name]
            raise ValueError(f"strategy {self.name} does not carry codec {self.codec}: say {' or '.join(fit)}")
        codec_of(self.codec)
        for owner in self.owners:
            if type(owner) is not int or not 0 <= owner < ranks:
                raise ValueError(f"owner {owner!r} is none of the ranks 0 to {ranks - 1}")

    def parts(self, variable) -> list[tuple[Any, "Strategy"]]:
        """Return [(variable, strategy)]. A strategy that combines two others returns two pairs. Local."""
        return [(variable, self)]

    @classmethod
    def joins(cls, variable: str) -> str:
        """Return a name. Only variables for which it is the same may be exchanged together. Local."""
        return ""

    # -- what it costs

    def loads(self, variable, ranks: int, popularity=None):
        """Return the bytes that each partition is expected to serve in a step: (P,) float64; () without owners. Local.

        popularity: (rows,), how often each row is pulled in a step; None: all rows equally often.
        """
        return np.empty(0)

    @classmethod
    def bytes_between(cls, placed: list, plan, touched: Callable) -> dict:
        """Return {(phase, variable, kind): bytes rank to rank} of variables exchanged together. Local.

        Bytes are (N, N) int64 or, for thousands of ranks, a ``plan.between.Between``.

        placed: (variable, strategy) of each.  touched(variable): (pulled, pushed), see ``plan.cost.bytes_between``.
        """
        raise NotImplementedError

    @classmethod
    def arena(cls, variables, codec: Codec = codec_of(IDENTITY)) -> Layout | None:
        """Return the arena of these variables that an allreduce sums; None if their bytes travel as messages. Local.

        codec: how they are encoded in the arena.
        """
        return None

    @classmethod
    def bucket_bytes(cls, least: int, ranks: int) -> int:
        """Return the bytes of dense variables that fill a bucket. least: the bytes that fill one message. Local."""
        return least

    def message_rounds(self, variable, ranks: int) -> int:
        """Return the number of rounds in which its rows travel. Local."""
        return 1

    def work(self, variable, plan, sample):
        """Return (N,): bytes that each rank fills or updates in a step, without sums of what arrives. Local."""
        return np.full(plan.ranks, float(variable.nbytes))


def strategy_of(name: str, sparse: bool) -> type[Strategy]:
    """Return the class with this name for this kind of variable. Raises ValueError for an unknown name. Local."""
    if (name, sparse) not in STRATEGIES:
        kind, known = "sparse" if sparse else "dense", ", ".join(names_of(sparse)) or "none: import refimpl.strategies"
        raise ValueError(f"no strategy {name!r} for a {kind} variable; there are {known}")
    return STRATEGIES[name, sparse]


def names_of(sparse: bool, automatic: bool = False) -> list[str]:
    """Return the names of the strategies for a kind of variable. automatic: only those that ``auto`` may choose."""
    return [name for (name, kind), cls in STRATEGIES.items() if kind == sparse and (cls.automatic or not automatic)]
