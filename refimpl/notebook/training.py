"""A training started from a notebook: a job of its own on real MPI, on this machine or on the emulated cluster."""

import tempfile
from dataclasses import dataclass
from pathlib import Path

from refimpl.experiments.cluster import run_on_cluster
from refimpl.notebook.results import measured_on, measured_or_stored
from refimpl.pictures.timeline import read_trace, typical_step
from refimpl.training.run.directory import read_metrics, read_result
from refimpl.transport.launch import launch
from refimpl.words import counted

SECONDS = 120.0


@dataclass
class Training:
    """The result of a training. result: of result.json.  metrics: one record for each step.  account: see
    ``refimpl.experiments.cluster.account``; empty without a cluster.  step_events: with trace=True, the trace of the
    step with median duration, for ``draw_timeline``.  measured: its date and machine, in words.
    directory: its run directory, None for a stored result.
    """

    result: dict
    metrics: list[dict]
    account: list
    step_events: list
    measured: str
    directory: Path | None = None
    _folder: object = None  # the temporary directory lives as long as this


def train_on_ranks(model: str, ranks: int | None = None, *, machines: int = 0, ranks_per_machine: int = 1,
                   rate: str = "", stored: str = "", keep: bool = False, output=None, timeout: float = SECONDS,
                   **options) -> Training:
    """Train ``model``, given by its name, on ranks of a new job and return its Training. Local.

    ranks: on this machine; or ``machines`` of ``ranks_per_machine`` with cards of ``rate`` ("200mbit"), emulated.
    stored: name of a stored result (results/NAME.json), which is shown if this machine cannot emulate a cluster; with
    ``keep`` it is shown whenever it exists, and measured only when notebooks are stored.
    output: run directory; None: a temporary one, which exists as long as the Training.
    options: those of ``refimpl train``, with _ for -: architecture="hybrid", steps=30, trace=True, overlap=False,
    set={"hidden": 64}.
    Raises ValueError with the training's own message if it fails; ClusterError without a cluster and a stored result;
    subprocess.TimeoutExpired after ``timeout`` seconds.
    """
    if bool(machines) == bool(ranks) or bool(machines) != bool(rate):
        raise ValueError("give ranks, or machines and their rate")
    folder = None if output else tempfile.TemporaryDirectory(prefix="refimpl-run-")
    directory = Path(output or Path(folder.name, "run"))
    arguments = ["-m", "refimpl", "train", model, *command_line(options), "--output", str(directory), "--json"]
    where = f"{machines} emulated machines of {counted(ranks_per_machine, 'rank')}, {rate}"

    def run() -> dict:
        job = run_on_cluster(machines, ranks_per_machine, rate, arguments, timeout, capture=True)
        return {"command": f"train {model} {' '.join(command_line(options))}".strip(), **_finished(job, directory)}

    if machines:
        found = measured_or_stored(stored, keep, where, run)
    else:
        job = launch(ranks, arguments, timeout, capture=True)
        found = {"measured": measured_on(f"{ranks} ranks, this machine"), **_finished(job, directory)}
    return Training(found["result"], found["metrics"], found["account"], found["step_events"], found["measured"],
                    directory if directory.exists() else None, folder)


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


def _finished(job, directory: Path) -> dict:
    """Return the results in a finished training's run directory, as plain data."""
    if job.returncode:
        said = [line for line in job.stderr.splitlines() if line.strip()]
        told = next((line for line in said if "error:" in line), "\n".join(said[-4:]))
        raise ValueError(f"the training ended with status {job.returncode}: {told}")
    traced = typical_step(read_trace(directory)) if (directory / "trace.json").exists() else []
    result = {**read_result(directory), "run_directory": None}  # a path on one machine, which is not stored
    return {"result": result, "metrics": read_metrics(directory), "account": list(getattr(job, "training", ())),
            "step_events": [{**event, "ts": round(event["ts"]), "dur": round(event["dur"])} for event in traced]}
