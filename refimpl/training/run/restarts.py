"""Restarts a training from its newest checkpoint if its job ends before the training.

Some failures end the job: a machine that is lost with its MPI daemon, or any failure under MPICH. Then the next job
uses the hosts that still answer. The exit status of mpirun does not decide whether a job is complete: it is complete if
it has written a new result.json.
"""

import os
import subprocess
import sys
from pathlib import Path

from refimpl.training.run.directory import holds_run
from refimpl.training.run.manifest import steps_saved
from refimpl.transport.job.hosts import Host, answering, host_options, placed, read_hosts
from refimpl.transport.launch import mpirun_command, run_job, runtime, terminal_variables
from refimpl.words import counted

GRACE_SECONDS = 300.0
"""Seconds for the current step and a checkpoint (--checkpoint-on-signal) when the user ends the whole run."""

REFUSED = (1, 2)
"""Exit statuses of a training that has reported an error in its input or options. It is not restarted."""


def train_with_restarts(arguments: list[str], directory: Path, ranks: int | None, hosts_file: str | None,
                        restarts: int) -> int:
    """Run ``train`` until its result is written, with at most 1 + ``restarts`` jobs; return the exit status. Local.

    arguments: the training's command line, ``train`` first; its --output is ``directory``.  ranks: the largest number;
    None: as many as the hosts run.  hosts_file: read before each start; None: all ranks run here. The status is 0 if
    the training is complete. Otherwise it is the status of the last job, or 1 if this was 0.
    Raises ValueError or OSError if the file of hosts cannot be used, or if none of its hosts answers.
    """
    for start in range(1, restarts + 2):
        hosts, lost = _hosts(hosts_file, ranks)
        before, begun = _written(directory), holds_run(directory)
        job = _run(arguments + _go_on(directory), hosts, ranks, f"start {start} of {restarts + 1}", lost)
        if _written(directory) != before:
            return 0
        if job.returncode in REFUSED and not begun and not holds_run(directory):
            return job.returncode  # before it began: each start would be refused alike
        saved = steps_saved(directory)
        _say(f"the job ended with status {job.returncode} and the training is not complete; "
             + (f"its newest checkpoint is of step {saved[-1]}" if saved else "it has saved no checkpoint"))
    _say(f"no restart is left of --restarts {restarts}; to go on, run the same command again")
    return job.returncode or 1


def _hosts(path, ranks) -> tuple[list[Host] | None, list[str]]:
    """Return (hosts to use, with their numbers of ranks; names of hosts that do not answer); (None, []): this host."""
    if path is None:
        return None, []
    named = read_hosts(path)
    there = answering(named, runtime().flavour)
    if not there:
        raise ValueError(f"none of the {len(named)} hosts in {path} answers: try ssh HOST true, which must work "
                         "without a password")
    most = sum(host.ranks for host in there)
    return placed(there, min(ranks or most, most)), [host.name for host in named if host not in there]


def _go_on(directory: Path) -> list[str]:
    """Return the options that resume a run in its directory; without a checkpoint there it starts again."""
    if steps_saved(directory):
        return ["--resume", str(directory)]
    for name in ("config.json", "metrics.jsonl"):  # steps that were lost
        (directory / name).unlink(missing_ok=True)
    return []


def _run(arguments, hosts, ranks, start, lost) -> subprocess.CompletedProcess:
    """Run the job of one start."""
    count = ranks if hosts is None else sum(host.ranks for host in hosts)
    where = "this host" if hosts is None else ", ".join(host.name for host in hosts)
    _say(f"{start}: {counted(count, 'rank')} on {where}"
         + (f"; {', '.join(lost)} {'does' if len(lost) == 1 else 'do'} not answer" if lost else ""))
    (mpirun, *rest), environment = mpirun_command(count, ["-m", "refimpl", *arguments])
    options = [] if hosts is None else host_options(hosts, runtime().flavour)
    return run_job([mpirun, *options, *rest], environment | terminal_variables(False), grace=GRACE_SECONDS)


def _written(directory: Path) -> tuple[int, int] | None:
    """Return two numbers that change when a new result.json replaces the old one; None if there is none."""
    try:
        found = os.stat(directory / "result.json")
    except FileNotFoundError:
        return None
    return found.st_ino, found.st_mtime_ns


def _say(words: str):
    print(f"refimpl: {words}", file=sys.stderr, flush=True)
