"""A run without barriers, read back from its directory: to be done once more, by its record."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from refimpl.json_file import read_json
from refimpl.plan.plan import SYNCHRONOUS, Plan
from refimpl.plan.validate import read_plan
from refimpl.training.consistency.served.record import Record, read_record
from refimpl.training.options import Options


@dataclass(frozen=True)
class RecordedRun:
    """A run's options, plan and record, and what it says of model and data."""

    directory: Path
    describe: dict
    options: Options
    plan: Plan
    record: Record

    @classmethod
    def read(cls, directory) -> "RecordedRun":
        """Read a run directory. Local. Raises ValueError for one that is damaged or has no record; OSError."""
        directory = Path(directory)
        record = read_record(directory)
        config = read_json(directory / "config.json", dict[str, Any], what="a run's config", remedy="train again")
        plan = Plan.from_json(read_plan(directory / "plan.json"))
        if plan.ranks != len(record.entries):
            raise ValueError(f"{directory}: the record is of {len(record.entries)} owners, the plan of {plan.ranks} "
                             "ranks: one of them is of another run")
        return cls(directory, config.get("describe", {}), Options.from_json(config.get("options", {})), plan, record)

    def options_on(self, comm) -> Options:
        """Return the options under which ``session.train`` replays the run on these ranks. Local.

        On as many as it had, each is an owner and a worker again; else each does it all, and keeps its part at the end.
        """
        if comm.size == self.plan.ranks:
            plan = replace(self.plan, machines=comm.machines)
            return replace(self.options, plan=plan.to_json(), slow_rank={})
        return replace(self.options, plan=None, architecture="hybrid", consistency=SYNCHRONOUS, correction="none",
                       slow_rank={}, allreduce="auto", partitions=None, balance="bytes", memory_limit=None)

    def check(self, found: str):
        """Raise ValueError unless these are the parameters, by their hash, that the run ended with. Local."""
        if found != self.record.parameters:
            raise ValueError(f"the replay of {self.directory} gives parameters {found[:12]}…, but it ended with "
                             f"{self.record.parameters[:12]}…: its model, data or options are others than they were, "
                             "or another version or machine computed it")
