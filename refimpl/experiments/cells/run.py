"""Run cells: profiles first, then one job for each cluster; what is done already, with the same code, is kept."""

import contextlib
import json
import sys
from functools import partial
from pathlib import Path
from typing import Callable

from refimpl.experiments.cells.cell import SOURCES, Cell, code_version, kept_result
from refimpl.experiments.cells.network import emulated_network, network_file
from refimpl.experiments.cells.report import opened
from refimpl.experiments.cluster import ClusterError, missing, run_on_cluster
from refimpl.experiments.cluster.description import Event, rate_of_card
from refimpl.experiments.replay import Profile, measure_profile
from refimpl.training.run.files import write_json
from refimpl.transport.launch import launch

SECONDS_OF_A_CELL = 300.0  # nothing that works takes so long
PROFILED_STEPS = 2


class Runner:
    """Runs cells and keeps their results as files. Local: the parent of all jobs.

    output: where results, profiles and measured networks lie, a directory that is made.  module: what each rank of a
    job runs.  sources: what the numbers of its cells come from, beside SOURCES.  any_version: take results of other
    code, too.  warm_up: cells to run before the first others.  say: shows people what goes on; None: on stderr.
    Raises ClusterError ``on_cluster`` where this machine cannot emulate one, ValueError for no such directory.
    """

    def __init__(self, output, module: str, sources: tuple[str, ...] = (), any_version: bool = False, warm_up=(),
                 on_cluster: bool = False, say: Callable[[str], None] | None = None):
        if on_cluster and (problem := missing()):
            raise ClusterError(problem)
        self.directory, self.module = opened(output).resolve(), module
        self.say = say or partial(print, file=sys.stderr, flush=True)
        self.warm_up, self.code = list(warm_up), code_version(sources=(*SOURCES, *sources))
        self.version = None if any_version else self.code
        self.failed: list[str] = []

    def profile(self, workload, microbatches: int) -> Profile:
        """Return the workload's profile; measure it if there is none for this number of microbatches."""
        where = self.directory / "profiles" / workload.name
        with contextlib.suppress(OSError, ValueError, KeyError):
            kept = Profile(where)
            if kept.workload == json.loads(json.dumps(workload.to_json())) and len(kept.entries[0]) >= microbatches:
                return kept
        self.say(f"measuring {PROFILED_STEPS * microbatches} microbatches of {workload.name} alone")
        return Profile(measure_profile(workload, microbatches, PROFILED_STEPS, where))

    def results(self, cells: list[Cell]) -> dict[Path, dict]:
        """Return cell.file -> result of each cell; those that fail are left out and kept in ``failed``."""
        found = self._kept(cells)
        missing = [cell for cell in cells if cell.file not in found]
        if missing and self.warm_up:
            cold, self.warm_up = self.warm_up, []
            self.results(cold)
        for cluster in dict.fromkeys(cell.cluster for cell in missing):
            self._run([cell for cell in missing if cell.cluster == cluster])
        return self._kept(cells)

    def _kept(self, cells):
        results = {cell.file: kept_result(self.directory, cell, self.version) for cell in cells}
        return {file: result for file, result in results.items() if result is not None}

    def _run(self, cells: list[Cell]):
        """Run cells of one cluster in one job; after a failure, go on behind the cell that failed."""
        for workload in {c.workload.name: c.workload for c in cells if c.compute == "replay"}.values():
            self.profile(workload, max(c.ranks for c in cells if c.workload.name == workload.name))
        while cells:
            job = self.start(cells, ["-m", self.module, str(self._job(cells))], SECONDS_OF_A_CELL * len(cells))
            if job.returncode == 0:
                return
            done = self._kept(cells)
            failed = next(cell for cell in cells if cell.file not in done)
            self.failed.append(f"{failed.file}: status {job.returncode}: {_last_words(job.stderr)}")
            self.say(self.failed[-1])
            cells = cells[cells.index(failed) + 1:]

    def start(self, cells, command: list[str], seconds: float):
        """Run a command on what these cells run on; return the job when it has ended. Local.

        What the cluster is lies where trainers look for a measured network.
        """
        machines, each, rate, slow_rate = cells[0].cluster
        if not rate:
            self.say(f"{each} ranks of this machine: {len(cells)} cells")
            return launch(each, command, timeout=seconds, capture=True)
        slow = f", that of machine {machines - 1} at {slow_rate}" if slow_rate else ""
        self.say(f"{machines} machines x {each} at {rate}{slow}: {len(cells)} cells")
        write_json(self.directory / network_file(machines, each, rate),
                   emulated_network(machines, each, rate).to_dict())
        events = (Event(machines - 1, rate_of_card(slow_rate), 0.0),) if slow_rate else ()
        return run_on_cluster(machines, each, rate, command, timeout=seconds, capture=True, events=events)

    def _job(self, cells) -> Path:
        """Write what the ranks are to do."""
        path = self.directory / "job.json"
        profiles = {c.workload.name: str(self.directory / "profiles" / c.workload.name) for c in cells}
        write_json(path, {"cells": [c.to_json() for c in cells], "profiles": profiles, "version": self.code,
                          "directory": str(self.directory)})
        return path


def _last_words(stderr: str | None) -> str:
    """Return the last line that is an error's message, or the last line at all."""
    lines = [line for line in (stderr or "").splitlines() if line.strip()]
    errors = [line for line in lines if "Error" in line or "error:" in line]
    return (errors or lines or ["(it said nothing)"])[-1]
