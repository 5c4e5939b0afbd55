"""A cell: one training of an experiment as plain data. Its digest is in the name of its result."""

import hashlib
import json
import re
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from typing import TypedDict

from models.workload import Workload
from refimpl.json_file import read_json

SOURCES = ("kernels", "models", "refimpl/transport", "refimpl/gradients", "refimpl/collectives", "refimpl/server",
           "refimpl/strategies", "refimpl/plan", "refimpl/training", "refimpl/experiments/replay.py",
           "refimpl/experiments/cells/cell.py", "refimpl/experiments/cells/ranks.py")
"""The sources of a cell's numbers. If one changes, the cell runs again."""

MANY = 1000  # steps, more than a partition search needs

ARCHITECTURES = {
    "allreduce": {"architecture": "allreduce", "local_aggregation": False},
    "naive ps": {"architecture": "ps", "partitions": 1, "local_aggregation": False},  # with its own plan
    "optimised ps": {"architecture": "ps", "scheme": "interleaved"},
    "hybrid": {"architecture": "hybrid", "scheme": "interleaved"},
    "auto": {"architecture": "auto", "scheme": "interleaved"},
}
"""Those of the paper: Horovod (rows by allgather, nothing merged on the machine), TensorFlow's parameter server (whole
variables), and Parallax. Partitions are interleaved, so that frequent rows have many owners."""

_SERVED = {"clip_norm": None, "architecture": "ps", "local_aggregation": False}
CONSISTENCIES = {
    **{name: {**_SERVED, "consistency": name}
       for name in ("synchronous", "backup:1", "bounded:2", "softsync:2", "asynchronous")},
    "dc-asgd": {**_SERVED, "consistency": "asynchronous", "correction": "dc-asgd"},
}
"""All use a parameter server, without local aggregation or clipping."""

CONTENDERS = {**ARCHITECTURES, **CONSISTENCIES}
"""The trainings that experiments compare: name -> options of the trainer."""


@dataclass(frozen=True)
class Cell:
    """One training on the emulated cluster or, if the rate is "", on ranks of one machine.

    contender: of CONTENDERS.  rate: of each machine's card.  slow_rate: of the last machine's, "": the same.  slow:
    rank, as text -> how many times as long it computes.  compute: "real", or "replay" of a profile, slowed down by
    ``slowdown``.  steps: counted ones, after ``warm`` others.  options: more options of the trainer.
    evaluate_every: steps between evaluations on held-out text, 0 for none; they do not count as time.
    """

    experiment: str
    workload: Workload
    contender: str
    machines: int
    ranks_per_machine: int
    rate: str
    compute: str = "replay"
    slowdown: float = 1.0
    steps: int = 4
    warm: int = 1
    options: dict = field(default_factory=dict)
    seed: int = 0
    evaluate_every: int = 0
    slow: dict = field(default_factory=dict)
    slow_rate: str = ""

    @property
    def ranks(self) -> int:
        """The number of ranks on all machines."""
        return self.machines * self.ranks_per_machine

    @property
    def cluster(self) -> tuple[int, int, str, str]:
        """The cluster, which is the same for all cells of a job."""
        return self.machines, self.ranks_per_machine, self.rate, self.slow_rate

    @property
    def network_file(self) -> Path:
        """Return the name of the file in which trainers find the network of the cluster."""
        return Path(f"network-{self.machines}x{self.ranks_per_machine}-{self.rate}.json")

    @property
    def trainer_options(self) -> dict:
        """Return the options of the training: the model's optimizer, the contender's, and the cell's own."""
        given = {**self.workload.entry.optimizer, "allreduce": allreduce_of(self.machines, self.ranks_per_machine),
                 **CONTENDERS[self.contender], **self.options}
        steps = MANY if given.get("search_partitions") else self.warm + self.steps  # a search ends when it has found P
        return {**given, "steps": steps, "seed": self.seed}

    @property
    def file(self) -> Path:
        """Return the path of the result in the output directory: readable, and different for different cells."""
        known = json.dumps(self.to_json(), sort_keys=True)
        name = f"{self.workload.name} {self.contender} {self.machines}x{self.ranks_per_machine} {self.compute}"
        digest = hashlib.sha256(known.encode()).hexdigest()[:8]
        return Path(self.experiment) / f"{re.sub('[ :]', '-', name)}-{digest}.json"

    def to_json(self) -> dict:
        """Return its fields as plain data."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: dict) -> "Cell":
        """Read what ``to_json`` wrote."""
        return cls(**{**data, "workload": Workload(**data["workload"])})


def allreduce_of(machines: int, ranks_per_machine: int) -> str:
    """Return the allreduce in reproducible order that sends least between such machines. Local.

    It is not chosen automatically, because 48 processes on two cores cannot measure a network or simulate candidates.
    """
    if machines == 1:
        return "direct"  # through shared memory
    if ranks_per_machine > 1:
        return "hierarchical"
    return "halving-doubling" if machines & (machines - 1) == 0 else "binary-blocks"


@cache
def code_version(root: Path | None = None, sources: tuple[str, ...] = SOURCES) -> str:
    """Return hex digits that change if any source file of ``sources`` changes. Local."""
    root = root or Path(__file__).resolve().parents[3]
    digest = hashlib.sha256()
    for source in sources:
        place = root / source
        for path in sorted(place.rglob("*.py")) if place.is_dir() else [place]:
            digest.update(str(path.relative_to(root)).encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]


class _Kept(TypedDict):
    cell: dict
    version: str
    result: dict


def kept_result(directory: Path, cell: Cell, version: str) -> dict | None:
    """Return a cell's result from an earlier run with the same settings and code; None: the cell must run. Local."""
    try:
        record = read_json(directory / cell.file, _Kept, what="a cell's result", remedy="run it again")
    except (OSError, ValueError):
        return None
    same = record["cell"] == json.loads(json.dumps(cell.to_json())) and record["version"] == version
    return record["result"] if same else None
