"""The event logs of a training without barriers: the order in which each owner answered pulls and received pushes.

    record.safetensors    "owner/i": a worker's number for each entry of owner i, 1 byte (2 with more than 256 workers)
    entries of an owner   N (2 steps + 1): a worker pulls and pushes in each step, and pulls a last time; with backup
                          workers, a late worker does fewer steps

Model, data, options and plan are in the same run directory. In plain: ``refimpl.plain.without_barriers.replay``.
"""

import hashlib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from refimpl.json_file import check_plain, read_json
from refimpl.plan.plan import SYNCHRONOUS, Plan
from refimpl.plan.validate import read_plan
from refimpl.training.consistency.served.owner import Owner
from refimpl.training.options import Options
from refimpl.training.run.files import appears_whole

FORMAT = "1"
NAME = "record.safetensors"
MOST_BYTES = 1 << 34


@dataclass(frozen=True)
class Record:
    """entries[i]: the event log of owner i, workers' numbers.  parameters: the hash of the final parameters."""

    entries: list[np.ndarray]
    parameters: str

    @property
    def digest(self) -> str:
        """Hex SHA-256 of all entries, owner by owner, and of the final parameters. Local."""
        digest = hashlib.sha256(self.parameters.encode())
        for owner, entries in enumerate(self.entries):
            digest.update(f"owner/{owner} {entries.dtype.str} {entries.shape}\n".encode() + entries.tobytes())
        return digest.hexdigest()


def entries_of(record, workers: int) -> np.ndarray:
    """Return an owner's event log as it is stored: (entries,) uint8, or uint16. Local."""
    return np.array(record, np.uint8 if workers <= 256 else np.uint16)


def write_record(directory: Path, record: Record):
    """Write the event logs of a training into its run directory. Local to rank 0. Raises OSError."""
    with appears_whole(Path(directory) / NAME) as temporary:
        save_file({f"owner/{i}": entries for i, entries in enumerate(record.entries)}, temporary,
                  {"format": FORMAT, "parameters": record.parameters, "digest": record.digest})


def read_record(directory: Path) -> Record:
    """Return the event logs in a run directory. Local. Raises ValueError if they are missing or damaged; OSError."""
    path = Path(directory) / NAME
    if not path.exists():
        raise ValueError(f"{directory} holds no {NAME}: only a run without barriers writes one, when it ends. Train "
                         "with --consistency first. (A run with easgd, gossip or local needs none: repeat it on as "
                         "many ranks.)")
    try:
        check_plain(path, MOST_BYTES)
        with safe_open(path, framework="numpy") as file:
            told, names = file.metadata() or {}, sorted(file.keys())
            entries = [file.get_tensor(f"owner/{i}") for i in range(len(names))]
        if odd := [i for i, one in enumerate(entries) if one.ndim != 1 or one.dtype.kind != "u"]:
            raise ValueError(f"the entries of owner {odd[0]} are no list of workers")
    except (SafetensorError, ValueError) as problem:
        raise ValueError(f"{path} is damaged, or no record: {problem}; record the training again") from problem
    if told.get("format") != FORMAT:
        raise ValueError(f"{path} has format {told.get('format')}: this version reads format {FORMAT}")
    record = Record(entries, told.get("parameters", ""))
    if record.digest != told.get("digest"):
        raise ValueError(f"{path} is damaged: its digest does not match its entries (cut, changed or swapped); "
                         "train again")
    return record


def bare_owner(text: str, workers: int, steps: int) -> Owner:
    """Return an owner without variables, with only the fields that the consistency ``text`` uses. Local."""
    return Owner({}, workers, Options(consistency=text, steps=steps))


def check_possible(record: Record, text: str, steps: int):
    """Raise ValueError, with the entry, unless a training with this consistency can write these logs. Local.

    So a replay never waits for a message that cannot arrive.
    """
    workers = len(record.entries)
    owners, at = [bare_owner(text, workers, steps) for _ in range(workers)], [0] * workers
    overs = [[False] * workers for _ in range(workers)]  # by worker, by owner: what it heard last
    stuck, moved = "", True
    while moved:
        moved, stuck = False, ""
        for number, (owner, entries) in enumerate(zip(owners, record.entries)):
            while at[number] < len(entries):
                worker = int(entries[at[number]])
                if lacks := _lacks(worker, owner, owners, overs, text):
                    stuck = stuck or f"owner {number}, entry {at[number]}: {lacks}"
                    break
                if worker in owner.pulled:
                    owner.push(worker, {})
                else:
                    overs[worker][number] = owner.over(worker)
                    owner.pull(worker, {})
                at[number], moved = at[number] + 1, True
    if stuck:
        raise ValueError(f"the record is not of a training {text} of {steps} steps: {stuck}; train again")
    if missing := [worker for worker in range(workers) if not all(overs[worker])]:
        raise ValueError(f"the record ends before workers {missing} have done {steps} steps: it is cut, or of another "
                         "training")


def _lacks(worker, owner, owners, overs, text) -> str:
    """Return why an owner cannot handle its next entry, of this worker; "" if it can."""
    if not 0 <= worker < len(owners):
        return f"there is no worker {worker}, only {len(owners)}"
    pulls = [one.clocks[worker] + (worker in one.pulled) for one in owners]
    mine, complete = owner.clocks[worker] + (worker in owner.pulled), min(pulls)  # steps of which it has all values
    if complete == max(pulls) and all(overs[worker]):
        return f"worker {worker} had finished"
    if worker in owner.pulled:
        return "" if complete == mine else f"worker {worker} pushes before all owners have answered it"
    if complete < mine:
        return f"worker {worker} pulls before all owners have answered its last pull"
    return "" if owner.answers(worker) else f"worker {worker} pulls, but {text} lets it wait"


@dataclass(frozen=True)
class RecordedRun:
    """A run that is read from its directory for a replay: options, plan, event logs; model and data as JSON."""

    directory: Path
    describe: dict
    options: Options
    plan: Plan
    record: Record

    @classmethod
    def read(cls, directory) -> "RecordedRun":
        """Read a run directory. Local. Raises ValueError if it is damaged or has no event logs; OSError."""
        directory = Path(directory)
        record = read_record(directory)
        config = read_json(directory / "config.json", dict[str, Any], what="a run's config", remedy="train again")
        plan = Plan.from_json(read_plan(directory / "plan.json"))
        if plan.ranks != len(record.entries):
            raise ValueError(f"{directory}: the record is of {len(record.entries)} owners, the plan of {plan.ranks} "
                             "ranks: they belong to different runs")
        return cls(directory, config.get("describe", {}), Options.from_json(config.get("options", {})), plan, record)

    def options_on(self, comm) -> Options:
        """Return the options with which ``session.train`` replays the run on these ranks. Local.

        On the same number of ranks each is an owner and a worker again. On another each does everything, and keeps its
        part.
        """
        if comm.size == self.plan.ranks:
            plan = replace(self.plan, machines=comm.machines)
            return replace(self.options, plan=plan.to_json(), slow_rank={})
        return replace(self.options, plan=None, architecture="hybrid", consistency=SYNCHRONOUS, correction="none",
                       slow_rank={}, allreduce="auto", partitions=None, balance="bytes", memory_limit=None)

    def check(self, found: str):
        """Raise ValueError unless ``found`` is the hash of the parameters with which the run ended. Local."""
        if found != self.record.parameters:
            raise ValueError(f"the replay of {self.directory} gives parameters {found[:12]}…, but it ended with "
                             f"{self.record.parameters[:12]}…: its model, data or options differ, or another version "
                             "or machine computed it")
