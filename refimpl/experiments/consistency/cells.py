"""A cell: one training of the experiment as plain data; what names its result, and decides whether it must be run."""

import hashlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path

from models.workload import Workload
from refimpl.experiments.parallax.cells.cell import allreduce_of
from refimpl.training.options import Options

WORKERS = 4
CONTENDERS = {
    "synchronous": {"consistency": "synchronous"},
    "backup:1": {"consistency": "backup:1"},
    "bounded:2": {"consistency": "bounded:2"},
    "softsync:2": {"consistency": "softsync:2"},
    "asynchronous": {"consistency": "asynchronous"},
    "dc-asgd": {"consistency": "asynchronous", "correction": "dc-asgd"},
}
"""Name -> options of the training. All have --architecture ps, without local aggregation or clipping."""

STRAGGLER = 3.0
"""Times as long as it need the last worker computes."""
SETTINGS = {"none": "no straggler", "computes": f"worker {WORKERS - 1} computes {STRAGGLER:g} x as long",
            "cable": f"the cable of worker {WORKERS - 1} is slow"}
"""Which straggler there is -> in words."""


@dataclass(frozen=True)
class Cell:
    """One training on WORKERS machines of one rank, or, with real computation, on as many ranks of this machine.

    contender: of CONTENDERS.  straggler: of SETTINGS.  compute: "replay" of a profile, slowed down by ``slowdown``, or
    "real".  rate: of each machine's card; slow_rate: of the straggler's.  warm: of the ``steps``, before time counts.
    """

    workload: Workload
    contender: str
    straggler: str
    compute: str
    steps: int
    warm: int = 1
    slowdown: float = 1.0
    rate: str = "200mbit"
    slow_rate: str = "50mbit"
    seed: int = 0
    experiment: str = "consistency"

    @property
    def ranks(self) -> int:
        """How many workers there are."""
        return WORKERS

    @property
    def cluster(self) -> tuple:
        """What cells of one job have in common."""
        return self.compute, self.rate, self.slow_rate if self.straggler == "cable" else ""

    @property
    def consistency(self) -> str:
        """As ``Options`` has it."""
        return CONTENDERS[self.contender]["consistency"]

    @property
    def factors(self) -> dict[str, float]:
        """Rank, as text -> how many times as long it computes."""
        return {str(WORKERS - 1): STRAGGLER} if self.straggler == "computes" else {}

    @property
    def options(self) -> Options:
        """Return the options of the training. A replay is slowed by its model, whose waiting takes no longer."""
        given = {**self.workload.entry.optimizer, "clip_norm": None, "architecture": "ps", "local_aggregation": False,
                 "allreduce": allreduce_of(WORKERS, 1), **CONTENDERS[self.contender]}
        return Options(**given, steps=self.steps, seed=self.seed,
                       slow_rank=self.factors if self.compute == "real" else {})

    @property
    def file(self) -> Path:
        """Return the result's path below the output directory: readable, and different for different cells."""
        digest = hashlib.sha256(json.dumps(self.to_json(), sort_keys=True).encode()).hexdigest()[:8]
        name = f"{self.contender} {self.straggler} {self.compute}".replace(" ", "-").replace(":", "-")
        return Path("cells") / f"{name}-{digest}.json"

    def to_json(self) -> dict:
        """Return its fields as plain data."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: dict) -> "Cell":
        """Read what ``to_json`` wrote."""
        return cls(**{**data, "workload": Workload(**data["workload"])})
