"""All options of a training, in one frozen object that is printed, compared between ranks, and saved."""

import sys
from dataclasses import asdict, dataclass, field, fields
from typing import get_args

from kernels.half import KINDS
from kernels.update import OPTIMIZERS
from kernels.update.rates import RATES
from refimpl.plan.codecs import codecs_to_choose
from refimpl.json_file import shaped
from refimpl.plan.make import check_sharded
from refimpl.plan.plan import SYNCHRONOUS
from refimpl.training.expected import OWN_LOOP, refuse_meant
from refimpl.training.factors import factors_of
from refimpl.transport.channel import CHANNELS, NONE
from refimpl.transport.device.choice import TRANSPORTS

MATHEMATICS = ("optimizer", "learning_rate", "scale_rate", "rate", "warmup", "rate_steps", "clip_norm", "weight_decay",
               "optimizer_options", "average_sparse", "seed", "consistency", "correction", "codec", "precision")
"""Options that change the numbers; a resumed run takes them from its checkpoint. No other option changes a bit, except
``device``: another kind of device rounds differently, but a run may be resumed there.
"""

BALANCES = ("bytes", "popularity")
DEVICES = ("cpu", "cuda", "auto")


@dataclass(frozen=True)
class Options:
    """Options of a training. docs/plan.md and docs/training.md explain most of them.

    architecture, sparse_as_dense, partitions, scheme, allreduce: see ``refimpl.plan.make_plan``.
    shard_optimizer: each rank updates 1 / N of the dense variables, and keeps the optimizer's state only for these.
    balance: owners get partitions by "bytes", or by the "popularity" of their rows in sampled steps.
    plan: the JSON of a plan to follow; None: the plan is made from the architecture.
    search_partitions: find P during the first steps (docs/paper.md, Mechanisms), starting at ``partitions`` (None: the
    number of machines). A sample is the mean of ``search_sample`` steps after ``search_warmup`` others.
    memory_limit: bytes of a rank for rows on the server and their optimizer state; None: no limit.
    hot_rows: H, the first rows of each sparse variable on the server that are replicated and summed by allreduce;
    "auto": the number that is predicted to be fastest. Rows must be numbered by falling popularity.
    mesh: "DATAxMODEL": fully connected layers are cut over groups of MODEL ranks (``refimpl.plan.mesh``); "auto": the
    mesh that is predicted to be fastest; None: no layer is cut.
    local_aggregation: the ranks of a machine merge their row gradients and pulls before these leave the machine.
    overlap: whether a thread exchanges while the rank computes; None: if this is probably faster (``choose_overlap``).
    device: where the ranks compute, "cpu", "cuda" (a GPU for each rank, or shared) or "auto"; see ``open_device``.
    transport: how device arrays travel, "nccl", "staged" or "auto"; see ``refimpl.transport.device.choice``.
    channel: how tensors are written into memory reserved at the receiver (``transport.channel.CHANNELS``), or "none".
    shared_memory: False sends dense gradients as messages even between ranks of one machine.
    optimizer, optimizer_options: see ``kernels.update.OPTIMIZERS``.  learning_rate, rate, warmup: see ``rates``.
    scale_rate: the number of microbatches for which ``learning_rate`` is given. With V it is multiplied by V /
    scale_rate.
    rate: a name of ``rates``; or a function that gets a step's number, from 0, and returns a factor of the learning
    rate; or an ``lr_scheduler`` of PyTorch. Of a function or scheduler the list of its factors is stored.
    rate_steps: steps until a falling rate ends; None: ``steps``.
    clip_norm: largest global norm of the gradient; None: no clipping.  weight_decay: adds decay * parameter;
    None: 0, and 0.01 for adamw, as in PyTorch.
    consistency, correction: how old the values may be with which a worker computes, and how a stale gradient is
    corrected; see ``consistencies``, ``corrections`` and, without a server, ``decentralised`` in
    ``refimpl.plain.without_barriers``. Optimizer and rate then count an owner's updates, or a replica's steps.
    slow_rank: number of a rank, as text -> how many times as long it computes.
    codec: kind ("dense", "sparse") or variable -> how its gradients are encoded, see ``refimpl.gradients.codecs``.
    "bf16/integers:8": architecture "auto" takes the one with the shortest predicted step, or none.
    precision: "bf16" or "fp16": the model computes with 16 bits, the optimizer updates float32 copies. None: float32.
    average_sparse: False: row gradients are summed over the microbatches instead of averaged, as in Parallax's code.
    Then every sparse variable's gradient is V times as large (docs/paper.md, Mechanisms).
    """

    architecture: str = "hybrid"
    sparse_as_dense: bool = False
    shard_optimizer: bool = False
    partitions: int | None = None
    scheme: str = "interleaved"
    balance: str = "bytes"
    allreduce: str = "auto"
    device: str = "cpu"
    transport: str = "auto"
    channel: str = NONE
    shared_memory: bool = True
    local_aggregation: bool = True
    overlap: bool | None = None
    plan: dict | None = None
    hot_rows: int | str = 0
    search_partitions: bool = False
    search_warmup: int = 3
    search_sample: int = 7
    memory_limit: int | None = None
    mesh: str | None = None
    steps: int = 300
    seed: int = 0
    optimizer: str = "adagrad"
    optimizer_options: dict = field(default_factory=dict)
    learning_rate: float = 0.2
    scale_rate: int | None = None
    rate: str | list = "constant"
    warmup: int = 0
    rate_steps: int | None = None
    clip_norm: float | None = None
    weight_decay: float | None = None
    average_sparse: bool = True
    consistency: str = SYNCHRONOUS
    correction: str = "none"
    slow_rank: dict = field(default_factory=dict)
    codec: dict = field(default_factory=dict)
    precision: str | None = None

    def __new__(cls, *_, **asked):
        refuse_meant(asked)
        return super().__new__(cls)

    def __post_init__(self):
        object.__setattr__(self, "rate", factors_of(self.rate, self.steps, self.learning_rate, self.warmup))
        for f in fields(self):
            object.__setattr__(self, f.name, _plain(f.name, getattr(self, f.name), get_args(f.type) or (f.type,)))
        for name, choices in (("optimizer", OPTIMIZERS), ("rate", RATES), ("balance", BALANCES), ("device", DEVICES),
                              ("transport", TRANSPORTS), ("channel", CHANNELS)):
            if isinstance(chosen := getattr(self, name), str) and chosen not in choices:
                more = f"; {OWN_LOOP}" * (name in ("optimizer", "rate"))
                raise ValueError(f"no {name} {getattr(self, name)!r}; there are {', '.join(choices)}{more}")
        name, told = _by_pytorchs_names(self.optimizer, self.optimizer_options)
        object.__setattr__(self, "optimizer", name)
        object.__setattr__(self, "optimizer_options", _told(name, told))
        if self.weight_decay is None:
            object.__setattr__(self, "weight_decay", 0.01 if name == "adamw" else 0.0)
        if self.rate_steps is None:
            object.__setattr__(self, "rate_steps", self.steps)
        for name, least in (("steps", 0), ("rate_steps", 0), ("warmup", 0), ("learning_rate", 0), ("weight_decay", 0),
                            ("search_warmup", 0), ("search_sample", 1)):
            if not getattr(self, name) >= least:
                raise ValueError(f"{name} is {getattr(self, name)}: it must be at least {least}")
        if self.precision not in (None, *KINDS):
            raise ValueError(f"no precision {self.precision!r}; there are {', '.join(KINDS)}")
        if self.shard_optimizer and self.plan is None:  # a given plan decides itself
            check_sharded(self.architecture)
        if self.channel != NONE and (self.consistency != SYNCHRONOUS or self.device != "cpu"):
            raise ValueError(f"--channel {self.channel} carries a synchronous training's arrays in host memory: leave "
                             "it out with --consistency and --device")
        if self.search_partitions and self.balance != "bytes":
            raise ValueError("the search for P places partitions by bytes: leave --balance popularity out")
        if self.codec and self.plan is not None:
            raise ValueError("the plan already says how gradients are encoded: leave codec out, or edit the plan")
        if (open_ones := codecs_to_choose(self.codec)) and self.architecture != "auto":
            which = next(iter(open_ones))
            raise ValueError(f"--codec {which}={self.codec[which]} allows several codecs, of which --architecture auto "
                             "takes one: say --architecture auto, or name one codec")
        if self.hot_rows != "auto" and not (isinstance(self.hot_rows, int) and self.hot_rows >= 0):
            raise ValueError(f"hot_rows is {self.hot_rows!r}: give a number of rows, or auto")
        for rank, factor in self.slow_rank.items():
            if not (rank.isdecimal() and _plain("slow_rank", factor, (float,)) >= 1):
                raise ValueError(f"slow_rank is {self.slow_rank}: give a rank's number, and a factor of at least 1")
        if self.scale_rate is not None and self.scale_rate < 1:
            raise ValueError(f"scale_rate is {self.scale_rate}: give the microbatches that the learning rate is for")
        if self.clip_norm is not None and not self.clip_norm > 0:
            raise ValueError(f"clip_norm is {self.clip_norm}: give a positive norm, or none for no clipping")

    def to_json(self) -> dict:
        """Return the fields as plain data for config.json."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: dict) -> "Options":
        """Return the options that ``to_json`` wrote. Raises ValueError, which names an unknown or wrong option."""
        return shaped(data, cls, "$.options")


WANTED = {int: "a whole number", float: "a finite number", bool: "True or False", str: "a string", dict: "a dict",
          type(None): "None",
          list: "a list of factors, or a function of the step"}


def _plain(name, value, kinds):
    """Return an option as a Python value. Raises ValueError, with the remedy, unless its type is one of the kinds."""
    plain = value.item() if getattr(value, "ndim", None) == 0 else value  # NumPy's numbers, and arrays of one
    if isinstance(plain, bool):
        fits = bool in kinds
    elif float in kinds and isinstance(plain, (int, float)):
        fits = abs(plain) <= sys.float_info.max  # so is no NaN, and no whole number beyond all floats
    else:
        fits = isinstance(plain, kinds)
    if not fits:
        more = f"; {OWN_LOOP}" * (name in ("optimizer", "learning_rate", "rate"))
        raise ValueError(f"{name} is {value!r:.200}: it must be {' or '.join(WANTED[kind] for kind in kinds)}{more}")
    return dict(plain) if isinstance(plain, dict) else plain


PYTORCHS = {"eps": "epsilon", "momentum": "mu"}


PYTORCHS_DEFAULTS = ("dampening", "nesterov", "amsgrad", "maximize")


def _by_pytorchs_names(name, given) -> tuple[str, dict]:
    """Return our optimizer and its options for names and options of PyTorch. Local.

    sgd with momentum becomes momentum, or nesterov with nesterov=True. Options with PyTorch's default are left out.
    """
    given = {PYTORCHS.get(option, option): value for option, value in given.items()}
    if isinstance(betas := given.get("betas"), (tuple, list)) and len(betas) == 2:
        given |= dict(zip(("beta1", "beta2"), given.pop("betas")))
    if name == "sgd" and given.get("mu"):
        name = "momentum"
    if name == "momentum" and given.get("nesterov") is True:
        name = "nesterov"
        del given["nesterov"]
    unsaid = PYTORCHS_DEFAULTS + ("mu",) * (name == "sgd")
    return name, {option: value for option, value in given.items() if option not in unsaid or value not in (0, False)}


def _told(name, given) -> dict:
    """Return the options of optimizer ``name`` as Python values. Raises ValueError for a wrong name or value."""
    optimizer = OPTIMIZERS[name]
    unknown = [option for option in given if option not in optimizer.options]
    if unknown:
        raise ValueError(f"{name} has no option {', '.join(sorted(map(str, unknown)))}; "
                         f"it has {', '.join(optimizer.options) or 'none'}; {OWN_LOOP}")
    told = {option: _plain(f"{name}'s option {option}", value, (float,)) for option, value in given.items()}
    for option, value in told.items():
        if not optimizer.bounds[option].holds(value):
            raise ValueError(f"{name}'s option {option} is {value}: it must be {optimizer.bounds[option].words}")
    return told
