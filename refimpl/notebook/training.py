"""A training started from a notebook: a job of its own on real MPI, on this machine or on the emulated cluster."""

import tempfile
from dataclasses import dataclass, field
from pathlib import Path

import refimpl.strategies  # noqa: F401 - a plan knows those that were imported
from refimpl.experiments.cluster import ClusterError, run_on_cluster
from refimpl.notebook.results import kept_result, load_result, measured_on, store_result
from refimpl.pictures.timeline import read_trace, typical_step
from refimpl.plan.validate import read_plan
from refimpl.training.run.directory import read_metrics, read_result
from refimpl.transport.launch import launch

SECONDS = 120.0


@dataclass
class Training:
    """What a training ended with. result: of result.json.  metrics: one record a step.  directory: its run directory,
    None for a stored result.  machine_bytes[m]: what the card of machine m (sent, received), account: see
    ``refimpl.experiments.cluster.account``; both empty where no cluster was asked for.
    measured: when and on what it ran, in words.  stored: whether it is an earlier run's.
    step_events: with trace=True, the trace of the step of median duration, for ``draw_timeline``.
    """

    result: dict
    metrics: list[dict]
    directory: Path | None = None
    machine_bytes: list = field(default_factory=list)
    account: list = field(default_factory=list)
    measured: str = ""
    stored: bool = False
    step_events: list = field(default_factory=list)
    _folder: object = None  # the temporary directory lives as long as this

    def plan(self) -> dict:
        """Return the plan that the run followed; of a stored result, too. Local."""
        return self.result["plan"]


def train_on_ranks(model: str, ranks: int | None = None, *, machines: int = 0, ranks_per_machine: int = 1,
                   rate: str = "", stored: str = "", keep: bool = False, output=None, timeout: float = SECONDS,
                   **options) -> Training:
    """Train ``model``, by its name, on ranks of a job of its own and return what came of it. Local.

    ranks: on this machine; or ``machines`` of ``ranks_per_machine`` with cards of ``rate`` ("200mbit"), emulated.
    stored: the name of the stored result (results/NAME.json) that is shown where this machine cannot emulate a cluster;
    with ``keep`` it is shown wherever there is one, and measured only when notebooks are stored.
    output: run directory; None makes one that lasts as long as the Training.
    options: those of ``refimpl train``, with _ for -: architecture="hybrid", steps=30, trace=True, overlap=False,
    set={"hidden": 64}.
    Raises ValueError with the training's own message if it fails; ClusterError without a cluster and a stored result;
    subprocess.TimeoutExpired after ``timeout`` seconds.
    """
    if bool(machines) == bool(ranks) or bool(machines) != bool(rate):
        raise ValueError("give ranks, or machines and their rate")
    if keep and (kept := kept_result(stored)):
        return _stored(kept)
    folder = None if output else tempfile.TemporaryDirectory(prefix="refimpl-run-")
    directory = Path(output or Path(folder.name, "run"))
    arguments = ["-m", "refimpl", "train", model, *command_line(options), "--output", str(directory), "--json"]
    if not machines:
        job = launch(ranks, arguments, timeout, capture=True)
        return _finished(job, directory, folder, f"{ranks} ranks, this machine")
    try:
        job = run_on_cluster(machines, ranks_per_machine, rate, arguments, timeout, capture=True)
    except ClusterError as problem:
        return _stored(load_result(stored, problem))
    where = f"{machines} emulated machines of {ranks_per_machine} rank{'s' * (ranks_per_machine > 1)}, {rate}"
    done = _finished(job, directory, folder, where)
    if stored:
        store_result(stored, where, command=f"train {model} {' '.join(command_line(options))}".strip(),
                     result=done.result, metrics=done.metrics, machine_bytes=done.machine_bytes, account=done.account,
                     step_events=done.step_events)
    return done


def _stored(kept: dict) -> Training:
    return Training(kept["result"], kept["metrics"], None, kept["machine_bytes"], kept["account"], kept["measured"],
                    True, kept.get("step_events", []))


def command_line(options: dict) -> list[str]:
    """Return options as a command line: steps=30 -> --steps 30, trace=True -> --trace, overlap=False -> --no-overlap,
    set={"hidden": 64} -> --set hidden=64; None: not given. Local."""
    arguments = []
    for name, value in options.items():
        flag = name.replace("_", "-")
        if isinstance(value, bool):
            arguments.append(f"--{flag}" if value else f"--no-{flag}")
        elif isinstance(value, dict):
            for key, number in value.items():
                arguments += [f"--{flag}", f"{key}={number}"]
        elif value is not None:
            arguments += [f"--{flag}", str(value)]
    return arguments


def _finished(job, directory, folder, where) -> Training:
    if job.returncode:
        said = [line for line in job.stderr.splitlines() if line.strip()]
        told = next((line for line in said if "error:" in line), "\n".join(said[-4:]))
        raise ValueError(f"the training ended with status {job.returncode}: {told}")
    result: dict = dict(read_result(directory))
    result["run_directory"] = None  # a place on one machine: no part of what is shown or stored
    result["plan"] = read_plan(directory / "plan.json")
    traced = typical_step(read_trace(directory)) if (directory / "trace.json").exists() else []
    whole = [{**event, "ts": round(event["ts"]), "dur": round(event["dur"])} for event in traced]  # short to read
    return Training(result, read_metrics(directory), directory, [list(pair) for pair in
                    getattr(job, "machine_bytes", ())], list(getattr(job, "training", ())), measured_on(where), False,
                    whole, folder)
