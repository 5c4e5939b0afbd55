"""Run cells: first profiles, then one job for each cluster. Results of the same code are kept."""

import contextlib
import json
import sys
from pathlib import Path

from refimpl.experiments.cells.cell import SOURCES, Cell, code_version, kept_result
from refimpl.experiments.cells.proportions import emulated_network
from refimpl.experiments.cells.report import opened
from refimpl.experiments.cluster import ClusterError, missing
from refimpl.experiments.cluster.description import Event, rate_of_card
from refimpl.experiments.job import JobFailed, measure
from refimpl.experiments.replay import PROFILED_STEPS, Profile, measure_profile
from refimpl.training.run.files import write_json
from refimpl.words import counted

SECONDS_OF_A_CELL = 300.0  # nothing that works takes so long


class Runner:
    """Runs cells and keeps their results as files. Local: the parent of all jobs.

    output: the directory of results, profiles and networks, which is made.  module: each rank calls its ``run_cell``.
    sources: more sources of its cells' numbers, beside SOURCES.  warm_up: cells to run before the first others.
    Raises ClusterError if ``on_cluster`` and this machine cannot emulate one, ValueError if there is no directory.
    """

    def __init__(self, output, module: str, sources: tuple[str, ...] = (), warm_up=(), on_cluster: bool = False):
        if on_cluster and (problem := missing()):
            raise ClusterError(problem)
        self.directory, self.module = opened(output).resolve(), module
        self.warm_up, self.code = list(warm_up), code_version(sources=(*SOURCES, *sources))
        self.failed: list[str] = []

    def profile(self, workload, microbatches: int) -> Profile:
        """Return the workload's profile; measure it if there is none for this number of microbatches."""
        where = self.directory / "profiles" / workload.name
        with contextlib.suppress(OSError, ValueError, KeyError):
            kept = Profile(where)
            if kept.workload == json.loads(json.dumps(workload.to_json())) and len(kept.entries[0]) >= microbatches:
                return kept
        say(f"measuring {PROFILED_STEPS * microbatches} microbatches of {workload.name} alone")
        return measure_profile(workload, microbatches, where)

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
        results = {cell.file: kept_result(self.directory, cell, self.code) for cell in cells}
        return {file: result for file, result in results.items() if result is not None}

    def _run(self, cells: list[Cell]):
        """Run cells of one cluster in one job; after a failure, continue after the cell that failed."""
        for workload in {c.workload.name: c.workload for c in cells if c.compute == "replay"}.values():
            self.profile(workload, max(c.ranks for c in cells if c.workload.name == workload.name))
        while cells:
            try:
                return self.start(cells)
            except JobFailed as problem:
                done, job = self._kept(cells), problem.job
            failed = next(cell for cell in cells if cell.file not in done)
            self.failed.append(f"{failed.file}: status {job.returncode}: {_last_words(job.stderr)}")
            say(self.failed[-1])
            cells = cells[cells.index(failed) + 1:]

    def start(self, cells):
        """Run cells on their cluster or on this machine; return when the job has ended. Local. Raises: see ``measure``.

        The cluster's network is written to the file that trainers read.
        """
        machines, each, rate, slow_rate = cells[0].cluster
        events = (Event(machines - 1, rate_of_card(slow_rate), 0.0),) if slow_rate else ()
        slow = f", that of machine {machines - 1} at {slow_rate}" if slow_rate else ""
        where = f"{machines} machines x {each} at {rate}{slow}" if rate else f"{counted(each, 'rank')} of this machine"
        say(f"{where}: {counted(len(cells), 'cell')}")
        if rate:
            write_json(self.directory / cells[0].network_file, emulated_network(machines, each, rate).to_dict())
        wanted = {"module": self.module, "path": str(self._job(cells))}
        measure("refimpl.experiments.cells.ranks:run_cells", wanted, each, machines if rate else 0,
                SECONDS_OF_A_CELL * len(cells), rate, events=events)

    def _job(self, cells) -> Path:
        """Write the job's file for the ranks."""
        path = self.directory / "job.json"
        profiles = {c.workload.name: str(self.directory / "profiles" / c.workload.name) for c in cells}
        write_json(path, {"cells": [c.to_json() for c in cells], "profiles": profiles, "version": self.code,
                          "directory": str(self.directory)})
        return path


def say(text: str):
    """Print a message on stderr."""
    print(text, file=sys.stderr, flush=True)


def _last_words(stderr: str | None) -> str:
    """Return the last line with an error; if there is none, the last line."""
    lines = [line for line in (stderr or "").splitlines() if line.strip()]
    errors = [line for line in lines if "Error" in line or "error:" in line]
    return (errors or lines or ["(it said nothing)"])[-1]
