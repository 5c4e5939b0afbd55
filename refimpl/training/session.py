"""A training from beginning to end: steps, metrics, evaluation, checkpoints, trace, and the result."""

import time
import warnings
from contextlib import nullcontext
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Any, Callable, Sequence

from threadpoolctl import threadpool_limits

from refimpl.plan import ledger_keys
from refimpl.plan.plan import SYNCHRONOUS
from refimpl.training.consistency.check import check_middle
from refimpl.training.consistency.run import Left, stretches_of
from refimpl.training.consistency.served.record import RecordedRun
from refimpl.training.evaluate import check_can_judge, evaluate
from refimpl.training.expected import refuse_meant
from refimpl.training.opening import choices_of, idle_ranks, open_directory
from refimpl.training.options import Options
from refimpl.training.planning.partition_trials import PartitionTrials
from refimpl.training.result import Result
from refimpl.training.run.best import Best
from refimpl.training.run.checkpoint import load_checkpoint, save_checkpoint
from refimpl.training.run.directory import bytes_moved, refuse_taken
from refimpl.training.run.signals import Signals, on_disk, stop, stopping
from refimpl.training.run.timeline import gather_events
from refimpl.training.run.totals import Totals, mean_alpha
from refimpl.training.run.whole import hand_back, hashes
from refimpl.training.schedule import check_schedule
from refimpl.training.trainer import Trainer, metrics_of
from refimpl.transport import Communicator
from refimpl.transport.channel.choice import over_channel
from refimpl.transport.errors import Interrupted


def train(model, data, heldout=None, *, comm=None, **asked) -> Result:
    """Train ``model`` on ``data`` and return the result. Collective: all ranks pass the same arguments.

    heldout: Data to evaluate on at the end (and every ``evaluate_every`` steps), or None.
    comm: the communicator of mpi4py with the ranks that train; None: all ranks.
    asked: ``options``, an ``Options``. Other keyword arguments:
    output: run directory; None: no files are written.  resume: directory of a checkpoint to continue from.
    change: names of options that may differ from the checkpoint's, such as ["learning_rate"].
    checkpoint_every: steps between checkpoints, or "30s", seconds on rank 0's clock; None: only one at the end.
    keep_best: keep the checkpoint with the lowest held-out loss, too, in output/best.  trace: write trace.json.
    progress: called on rank 0 with each step's metrics; if it returns True, the training ends after this step.
    Raises CollectiveError on every rank for any error of any rank; Interrupted, a CollectiveError, after a signal.
    """
    refuse_meant(asked)
    return Session(model, data, heldout, **asked).train(Communicator.of(comm))


@dataclass
class Session:
    """A training of ``options.steps`` steps, and its files. The constructor is local; all ranks ``train`` together.

    Other fields are arguments of the function ``train``.  warm: steps at the start that do not count for the speed.
    describe: the description of model and data for config.json and checkpoints, plain JSON values.
    announce: called on rank 0 with the automatic choices and their reasons.
    watch: ``watch(trainer)`` returns the context of a step, on every rank; without barriers, of the steps between two
    cuts.
    signals: tells before each step whether this rank was asked to end; then a last checkpoint is saved.
    replay: a run without barriers to replay; ``options`` are those of ``RecordedRun.options_on``.
    """

    model: Any
    data: Any
    heldout: Any = None
    _: KW_ONLY
    options: Options
    output: Path | str | None = None
    resume: Path | str | None = None
    change: Sequence[str] = ()
    keep_best: bool = False
    checkpoint_every: int | str | None = None
    evaluate_every: int | None = None
    trace: bool = False
    describe: dict | None = None
    progress: Callable[[dict], Any] | None = None
    announce: Callable[[str], None] | None = None
    watch: Callable = nullcontext
    warm: int = 2
    signals: Signals | None = None
    replay: RecordedRun | None = None

    def train(self, comm: Communicator) -> Result:
        """Train on all ranks of ``comm``; return the result. Collective. Raises what the function ``train`` raises."""
        channel = over_channel(comm, self.options.channel, self.announce)
        with comm.one_end(), channel, threadpool_limits(1):  # threads would fight for cores, may sum in another order
            self._open(comm)
            if self.replay is None and self.options.consistency == SYNCHRONOUS:
                return self._finish(self._train_steps())
            return self._finish({}, self._train_without_barriers())

    def _open(self, comm):
        """Open the trainer at the step where this session begins, and the run directory. Collective."""
        network_file = comm.together(lambda: self._network_file(comm.rank), (ValueError, OSError))
        self.trainer = Trainer.open(self.model, self.data, self.options, comm, facts=self._facts, trace=self.trace,
                                    network_file=network_file)
        self._tell_choices()
        searched = self._load()
        comm.together(self._check_steps, (ValueError,))  # before any file is written
        self.best = Best.open(self.trainer, self.output, self.keep_best, self.heldout, self._continues)
        self.trials = PartitionTrials.open(self.trainer, self._tell, searched)
        self.directory = comm.together(lambda: None if self.output is None or comm.rank else open_directory(
            self.trainer, self.output, self.describe or {}, self._continues()), (ValueError, OSError))
        self.saved_at = time.monotonic()
        self.warm = min(self.warm, max(1, self.options.steps - self.trainer.step - 1))  # of few steps the last counts
        self.totals = Totals(comm, self.trainer.step + self.warm)

    def _load(self) -> dict | None:
        """Continue from a checkpoint, if there is one; return the state of a partition search. Collective."""
        return None if self.resume is None else load_checkpoint(self.trainer, Path(self.resume), self.change)

    def _train_steps(self) -> dict:
        """Do all steps, or stop if ``progress`` asks; return the last evaluation, {} without one. Collective."""
        record = {}
        with stopping(self.trainer):
            while self.trainer.step < self.options.steps:
                record = self._whole_step()
        return record.get("heldout", {})

    def _whole_step(self) -> dict:
        """Do a step and the tasks that are due after it; return its metrics. Collective."""
        trainer = self.trainer
        record, seconds = self._next_step()
        self.totals.add(record, seconds, trainer.alpha)
        if self.trials.after_step(seconds):
            self._search_ended(trainer.step + self.warm)
        self.totals.add_moves()
        ended = trainer.step == self.options.steps
        if self.heldout is not None and self._due(self.evaluate_every, ended):
            record["heldout"] = evaluate(trainer, self.heldout)
            self.best.see(trainer, record["heldout"]["loss"], self.describe or {})
        self._report(record)
        if self._checkpoint_due(ended):
            self._save()
        return record

    def _train_without_barriers(self) -> Left:
        """Do all steps by the consistency, or replay event logs; return the results of owners. Collective."""
        left, every = Left([], []), (self.evaluate_every, self.checkpoint_every)
        for steps, counted_from, left in stretches_of(
                self.trainer, self.replay, self.watch, self.progress, self.warm, every,
                lambda: self.signals is not None and self.signals.asked):
            self.totals.add_stretch(steps, counted_from)
            self._between(steps, ended=left is not None)
        return left

    def _network_file(self, rank) -> Path | None:
        """Return where the calibrated network is stored, or None. Raises early what would fail at the end. Local."""
        check_can_judge(self.model, self.heldout)
        if self.output is None:
            return None
        if rank == 0 and not self._continues():
            refuse_taken(Path(self.output))
        return Path(self.output) / "network.json"

    def _continues(self) -> bool:
        """Return whether the run is resumed in its own directory. Local."""
        return self.resume is not None and Path(self.resume).resolve() == Path(self.output).resolve()

    def _facts(self) -> dict:
        """Return further facts that must be the same on all ranks, because their common calls depend on them. Local."""
        return {"model and data": self.describe or {},
                "held-out data": None if self.heldout is None else self.heldout.fingerprint, "trace": self.trace,
                **{name: getattr(self, name) for name in ("evaluate_every", "checkpoint_every", "keep_best")},
                "output": self.output is not None, "resume": self.resume is not None, "change": sorted(self.change)}

    def _check_steps(self):
        """Raise ValueError unless all remaining steps can be done, with the cuts that are asked for. Local."""
        check_middle(self.trainer, (self.evaluate_every, self.checkpoint_every),
                     self.signals is not None and self.signals.checkpoint)
        if self.trainer.step < self.options.steps:
            check_schedule(self.options, self.trainer.comm.size)

    def _tell_choices(self):
        """Announce the choices and reasons. Without ``announce``, only warn of ranks without microbatches. Local."""
        idle = idle_ranks(self.trainer)
        for said in (*choices_of(self.trainer), idle and f"note: {idle}"):
            self._tell(said)
        if idle and self.announce is None and self.trainer.comm.rank == 0:
            warnings.warn(idle, stacklevel=5)

    def _tell(self, text):
        """Announce a text on rank 0, if there is one. Local."""
        if text and self.announce is not None and self.trainer.comm.rank == 0:
            self._attempt(lambda: self.announce(text))

    def _attempt(self, work):
        """Do a task of rank 0. An error in it stops all ranks at their next step. Local."""
        try:
            work()
        except BaseException as problem:
            self.trainer.failure = self.trainer.failure or problem

    def _report(self, record):
        """Write and show a step's metrics on rank 0. Collective."""
        trainer, comm = self.trainer, self.trainer.comm
        if self.output is not None:
            counts = comm.gather_ledger(keys := self._ledger_keys())
            record = {**record, "alpha": mean_alpha(comm, trainer.alpha)}

        def work():
            if self.directory is not None:
                self.directory.write_metrics(record | bytes_moved(keys, counts))
            if self.progress is not None and self.progress(record) is True:
                stop(trainer)

        if comm.rank == 0:
            self._attempt(work)

    def _ledger_keys(self) -> list[tuple[str, str, str]]:
        """Return every (phase, variable, kind) that a step may send, in the same order on all ranks. Local."""
        return ledger_keys(self.trainer.plan, self.model.variables, metrics_of(self.model)) + self.trials.ledger_keys()

    def _next_step(self) -> tuple[dict, float]:
        """Do a step, unless a rank was asked to end; return as ``_timed_step``. Collective."""
        self.trainer.failure = self.trainer.failure or (self.signals and self.signals.error())
        try:
            return self._timed_step()
        except Interrupted as error:
            if error.at_once:
                raise
            raise self._saved(error) from error

    def _timed_step(self) -> tuple[dict, float]:
        """Do a step; return its metrics and its seconds on this rank. Collective."""
        with self.watch(self.trainer):
            begin = time.perf_counter()
            return self.trainer.train_step(), time.perf_counter() - begin

    def _due(self, every, ended: bool) -> bool:
        """Return whether a task with the period ``every`` steps (None: only at the end) is due now. Local."""
        return ended or bool(every) and self.trainer.step % every == 0

    def _checkpoint_due(self, ended: bool) -> bool:
        """Return whether a checkpoint is due now. Collective if rank 0's clock decides."""
        if ended or not isinstance(self.checkpoint_every, str):
            return self._due(self.checkpoint_every, ended)
        due = self.saved_at + float(self.checkpoint_every.removesuffix("s"))
        return bool(self.trainer.comm.once(lambda: "due" * (time.monotonic() >= due)))

    def _save(self):
        """Save a checkpoint, if there is a run directory. Collective."""
        if self.output is not None:
            save_checkpoint(self.trainer, Path(self.output), self.describe or {}, search=self.trials.state())
        self.saved_at = time.monotonic()

    def _saved(self, error: Interrupted) -> Interrupted:
        """Save a last checkpoint; return the error that names it, the same on every rank. Collective."""
        self._save()
        state = self.trainer.comm.once(lambda: on_disk(self.output))
        return Interrupted(f"{error}: ended after step {self.trainer.step}: {state}", error.signal, agreed=True)

    def _search_ended(self, counted_from):
        """Count only steps with the chosen P for the speed, if there will be any; write the plan again."""
        if counted_from < self.options.steps:
            self.totals.restart_clock(counted_from)
        if self.directory is not None:
            self._attempt(lambda: self.directory.write_plan(self.trainer.plan.to_json()))

    def _between(self, steps, ended):
        """Write metrics, evaluate and save between two stretches without barriers, and at the end. Collective."""
        trainer, comm = self.trainer, self.trainer.comm
        if self.heldout is not None and steps and not ended and self._due(self.evaluate_every, ended):
            steps[-1]["heldout"] = evaluate(trainer, self.heldout)
            self.best.see(trainer, steps[-1]["heldout"]["loss"], self.describe or {})
        comm.together(lambda: self.directory and [self.directory.write_metrics(metrics) for metrics in steps])
        try:
            comm.agree(self.signals and self.signals.error())
        except Interrupted as error:
            if error.at_once:
                raise
            if not ended:  # else all is done but its result
                raise self._saved(error) from error
        if self._due(self.checkpoint_every, ended):
            self._save()

    def _finish(self, evaluation: dict, left: Left | None = None) -> Result:
        """Gather the result and write it. Collective. left: the results of owners without barriers."""
        trainer, comm, directory = self.trainer, self.trainer.comm, self.directory
        if not evaluation and self.heldout is not None:  # resumed at the last step: nothing was left to do
            evaluation = evaluate(trainer, self.heldout)
        comm.agree(trainer.failure)
        if self.trace:
            events = gather_events(comm, trainer.timeline.spans)
            comm.together(lambda: directory and directory.write_trace(events))
        found = hashes(trainer.parameters)
        result = Result(trainer.plan.architecture, comm.size, trainer.step, evaluation=evaluation,
                        partition_search=self.trials.to_json(), overlap=trainer.overlap,
                        run_directory=None if self.output is None else str(self.output), rank=comm.rank,
                        consistency=self.options.consistency, staleness=left.histograms if left else [],
                        **self.totals.result(), **found)
        comm.together(lambda: directory and left and left.write(directory.path, result.parameters_sha256))
        comm.together(lambda: directory and directory.finish(result.to_json()))
        hand_back(trainer.parameters, self.model)
        return result
