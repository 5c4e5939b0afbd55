"""The search for the number of partitions within a job: its first steps are the samples (docs/paper.md, Mechanisms).

Each trial moves the rows to P partitions, waits a few steps, and measures the mean time of the next few. The
time of a step is that of the slowest rank, so it is the same number on every rank, and all ranks choose the same next
P. A checkpoint contains the complete samples. A resumed run continues with them if its cluster and plan are the same.
"""

import json
from dataclasses import asdict, dataclass
from typing import Callable

import numpy as np

from kernels.update import OPTIMIZERS
from refimpl.json_file import shaped
from refimpl.plan import Plan
from refimpl.plan.partitions.balance import owned_bytes
from refimpl.plan.make import with_partitions
from refimpl.plan.partitions.search import PartitionSearch
from refimpl.transport.ledger import Ledger


@dataclass(frozen=True)
class SearchState:
    """A search in a checkpoint.  under: the cluster and plan of the samples, see ``_under``."""

    under: dict
    walk: PartitionSearch


def within_memory(plan: Plan, variables, options) -> Plan:
    """Return the plan with which a training begins: as made, or with the first P of a search that fits. Local.

    Raises ValueError if no P fits ``options.memory_limit``, or if there is nothing to search.
    """
    if not _searches(plan, variables, options):
        if not _fits(plan, variables, options):
            held = owned_bytes(plan, variables, _arrays(options))
            raise ValueError(f"rank {held.argmax()} would hold {held.max()} bytes of rows and their state, the "
                             f"memory limit is {options.memory_limit}; spread them over more --partitions, let "
                             f"--search-partitions find how many, or use more ranks")
        return plan
    search = _search(plan, variables, options)
    while True:
        count = search.propose()
        first = with_partitions(plan, variables, count)
        if _fits(first, variables, options):
            return first
        search.exceeded(count)


def _searches(plan, variables, options) -> bool:
    """Return whether partitions are searched. Raises ValueError if there are none, unless "auto" has chosen so."""
    if not options.search_partitions or plan.partitioned(variables):
        return options.search_partitions
    if plan.architecture == "auto":
        return False
    raise ValueError("--search-partitions: no sparse variable of this model goes to the server under architecture "
                     f"{plan.architecture}; leave the option out, or resume with --no-search-partitions")


def _search(plan, variables, options) -> PartitionSearch:
    """Return a new search, which starts at ``options.partitions`` or at the number of machines."""
    most = max([1, *(v.shape[0] for v in plan.partitioned(variables))])
    return PartitionSearch(options.partitions or len(plan.machines or [0]), most)


def _arrays(options) -> int:
    """Return the number of arrays of a variable's shape on a rank: its values and the optimizer's states."""
    return 1 + len(OPTIMIZERS[options.optimizer].state)


def _fits(plan, variables, options) -> bool:
    limit = options.memory_limit
    return limit is None or int(owned_bytes(plan, variables, _arrays(options)).max()) <= limit


class PartitionTrials:
    """The search of a running training. The constructor is local; all ranks ``open`` it and report every step.

    announce: called on rank 0 with what was measured and chosen.
    """

    def __init__(self, trainer, announce: Callable[[str], None] | None):
        self.trainer, self.options, self.variables = trainer, trainer.options, trainer.model.variables
        self.announce = announce if announce and trainer.comm.rank == 0 else lambda text: None
        self.active = _searches(trainer.plan, self.variables, self.options)
        self.search = _search(trainer.plan, self.variables, self.options) if self.active else None
        self.trying, self.seconds, self.opening = 0, [], Ledger()

    @classmethod
    def open(cls, trainer, announce: Callable[[str], None] | None, earlier: dict | None = None) -> "PartitionTrials":
        """Return the search, with its first or next P in use. Collective. Raises CollectiveError if no P fits.

        earlier: ``state`` of the run that is resumed, or None.
        """
        trials = cls(trainer, announce)
        if trials.active:
            trainer.comm.together(lambda: trials._take_up(earlier))
            trainer.comm.ledger.clear()
            trials._try_next()
            trials.opening.add(trainer.comm.ledger)
        return trials

    def _take_up(self, earlier):
        """Continue with a checkpoint's samples if they have this cluster and plan; else say that they are dropped."""
        if earlier is None:
            return
        then, now = _read(earlier), _under(self.trainer)
        differing = [name for name in now if then.under.get(name) != now[name]]
        if differing:
            self.announce(f"partitions: the search starts again, as its samples are of other {', '.join(differing)}")
            return
        self.search = then.walk
        self.announce(f"partitions: the search goes on after {', '.join(map(str, self.search.samples)) or 'no sample'}")

    def after_step(self, seconds: float) -> bool:
        """Report the seconds of this rank's step; return True if the search has just ended. Collective.

        The bytes sent here, and by ``open``, are added to the ledger of the step.
        """
        self.trainer.comm.ledger.add(self.opening)
        self.opening.clear()
        if not self.active:
            return False
        self.seconds.append(seconds)
        if len(self.seconds) < self.options.search_warmup + self.options.search_sample:
            return False
        sample = np.array(self.seconds[self.options.search_warmup:])
        mean = float(self.trainer.comm.share(sample, "search").max(axis=0).mean())
        self.search.measured(self.trying, mean)
        self.announce(f"partitions: {self.trying} take {mean * 1e3:.4g} ms a step")
        if self.trainer.step < self.options.steps:
            self._try_next()
        return not self.active

    def _try_next(self):
        """Change to the next P that fits. If there is none, change to the best P and end the search."""
        while (count := self.trainer.comm.together(self.search.propose)) is not None:
            if self._move(count):
                self.trying, self.seconds = count, []
                return
            self._too_large(count)
        while not self._move(count := self.trainer.comm.together(self.search.best)):
            self._too_large(count)
        self.trying, self.active = count, False
        self.announce(describe(self.to_json()))

    def _too_large(self, count):
        self.search.exceeded(count)
        self.announce(f"partitions: {count} take too much memory on a rank")

    def _move(self, count) -> bool:
        """Use P partitions from now on; return False if this takes too much memory on any rank."""
        plan = with_partitions(self.trainer.plan, self.variables, count)
        with self.trainer.timeline.phase("repartition"):
            return _fits(plan, self.variables, self.options) and repartition(self.trainer.parameters, plan)

    def ledger_keys(self) -> list[tuple[str, str, str]]:
        """Return every (phase, variable, kind) of a search's messages, in one order on all ranks; [] without one."""
        if self.search is None:
            return []
        moved = [("repartition", v.name, "rows") for v in self.trainer.plan.partitioned(self.variables)]
        return [("search", "", "control"), ("repartition", "", "control"), *moved]

    def state(self) -> dict | None:
        """Return a SearchState as plain data, with which a resumed run continues; None without a search. Local."""
        return self.search and asdict(SearchState(_under(self.trainer), self.search))

    def to_json(self) -> dict | None:
        """Return samples, thetas and the present P as plain data; None if nothing was searched. Local."""
        if self.search is None:
            return None
        return {**self.search.to_json(), "chosen": self.trying, "finished": not self.active}


def repartition(parameters, plan: Plan) -> bool:
    """Follow another plan from the next step on; it may differ from the present one only in the partitions.

    Rows and their optimizer state are sent directly from owner to owner; no bit changes (I1). A rank allocates one new
    array at a time, and then frees the old one. The bytes are counted in the phase "repartition": each row that changes
    its owner once, with its optimizer state; and a byte from each rank to each other, which says whether it has the
    memory.

    Returns True; or False on all ranks, with nothing changed, if any rank has too little memory. Raises ValueError if
    the plans differ in anything else. Collective; all ranks give the same plan.
    """
    if _ownerless(parameters.plan, "") != _ownerless(plan, ""):
        raise ValueError("only the partitions of sparse variables on the server can change during a training; save a "
                         "checkpoint and resume it to follow another plan")
    tables, short = {}, False
    try:
        for exchange in parameters.exchanges:
            if plan.partitioned(exchange.variables):
                tables[exchange] = exchange.tables_for(plan)
    except MemoryError:
        short = True
    if parameters.comm.share(np.array([short]), "repartition").any():
        return False
    for exchange, new in tables.items():
        exchange.follow(plan, new)
    parameters.plan = plan
    return True


def _ownerless(plan: Plan, scheme: str | None = None) -> Plan:
    """Return the plan without owners of partitions and, if given, with another scheme. Local."""
    return plan.replaced({name: strategy.with_owners((), scheme) for name, strategy in plan.strategies.items()
                          if strategy.partitioned})


def _read(state) -> SearchState:
    """Return what ``PartitionTrials.state`` wrote. Raises ValueError, which names a wrong field. Local."""
    try:
        return shaped(state, SearchState)
    except ValueError as problem:
        raise ValueError(f"what the checkpoint has of a partition search is damaged: {problem}; resume with "
                         "--no-search-partitions, or from the checkpoint before it") from problem


def _under(trainer) -> dict:
    """Return what the time of a step with some P depends on: the plan without its owners, device, limits. Local."""
    said = {name: getattr(trainer.options, name)
            for name in ("partitions", "memory_limit", "overlap", "transport", "shared_memory")}
    return json.loads(json.dumps({**_ownerless(trainer.plan).to_json(), **trainer.device.to_json(), **said,
                                  "overlap": trainer.overlap}))


def describe(found: dict) -> str:
    """Return the result of a search as one line. Local."""
    tried = ", ".join(str(s["partitions"]) for s in found["samples"])
    if found["theta"] is None:
        return f"partitions: {found['chosen']} are fastest (tried {tried}: too few for a curve)"
    constant, shared, each = (1e3 * theta for theta in found["theta"])
    return (f"partitions: {found['chosen']} from now on (tried {tried}; a step takes {constant:.4g} + {shared:.4g}/P "
            f"+ {each:.4g} P ms)")
