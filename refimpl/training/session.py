"""A training from beginning to end: steps, metrics, evaluation, checkpoints, trace, and the result."""

import time
import warnings
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Callable

from threadpoolctl import threadpool_limits

from kernels.update import OPTIMIZERS
from refimpl.plain.consistencies import is_decentralised
from refimpl.plan import ledger_keys
from refimpl.plan.plan import SYNCHRONOUS
from refimpl.training.alpha import mean_alpha
from refimpl.training.consistency.check import check_middle
from refimpl.training.consistency.served.flight import steps_done
from refimpl.training.consistency.served.recorded_run import RecordedRun
from refimpl.training.consistency.run import Left, train_by_record, train_decentralised, train_without_barriers
from refimpl.training.evaluate import evaluate
from refimpl.training.options import Options
from refimpl.training.planning.partition_trials import PartitionTrials
from refimpl.training.result import Result
from refimpl.training.run.checkpoint import check_saveable, load_checkpoint, save_checkpoint
from refimpl.training.run.directory import RunDirectory, refuse_taken
from refimpl.training.run.signals import Signals, on_disk
from refimpl.training.run.timeline import gather_events
from refimpl.training.run.totals import Totals
from refimpl.training.run.whole import hashes
from refimpl.training.schedule import check_schedule
from refimpl.training.trainer import Trainer
from refimpl.transport import Communicator
from refimpl.transport.errors import Interrupted


def train(model, data, heldout=None, *, options: Options, comm=None, output=None, resume=None, checkpoint_every=None,
          evaluate_every=None, trace=False, describe: dict | None = None,
          progress: Callable[[dict], None] | None = None, announce: Callable[[str], None] | None = None,
          watch=nullcontext, warm=2, signals: Signals | None = None, replay: RecordedRun | None = None) -> Result:
    """Train ``model`` on ``data`` for ``options.steps`` steps and return the result. Collective over ``comm``.

    heldout: Data to evaluate on at the end (and every ``evaluate_every`` steps), or None.
    output: run directory, None to write no files.  resume: directory of a checkpoint to continue from.
    describe: what config.json and checkpoints should say of model and data, plain JSON values.
    announce: called on rank 0 with what was chosen, and why.
    watch: ``watch(trainer)`` returns the context in which a step is done, on every rank; without barriers, all those
    between two cuts.
    progress: called on rank 0 with each step's metrics.  warm: steps at the start that do not count for the speed.
    signals: asked before each step whether this rank shall end; then a last checkpoint is saved.
    replay: a run without barriers to do once more, by its record; ``options`` are what ``RecordedRun.options_on`` says.
    Raises CollectiveError, with one message on every rank, for anything that any rank finds wrong; Interrupted, which
    is one, when a rank was asked to end.
    """
    comm = Communicator.of(comm)
    describe = describe or {}
    with comm.one_end(), threadpool_limits(1):  # more threads would fight for the cores, and may sum in another order
        comm.together(lambda: _check_can_judge(model, heldout), (ValueError,))
        network_file = _network_file(comm, output, resume)
        facts = partial(_facts, describe, heldout, trace=trace, evaluate_every=evaluate_every,
                        checkpoint_every=checkpoint_every, output=output is not None, resume=resume is not None)
        trainer = Trainer.open(model, data, options, comm, facts=facts, trace=trace, network_file=network_file)
        tell = partial(_tell, trainer, announce)
        _tell_choices(trainer, tell, announce is not None)
        searched = None if resume is None else load_checkpoint(trainer, Path(resume))
        every, on_signal = (evaluate_every, checkpoint_every), signals is not None and signals.checkpoint
        comm.together(lambda: check_middle(trainer, every, on_signal), (ValueError,))  # before any file is written
        comm.together(lambda: trainer.step < options.steps and check_schedule(options, comm.size), (ValueError,))
        trials = PartitionTrials.open(trainer, tell, searched)
        directory = _open_directory(trainer, output, describe, resume)
        warm = min(warm, max(1, options.steps - trainer.step - 1))  # of few steps the last one counts
        totals = Totals(comm, trainer.step + warm)
        if replay is not None or options.consistency != SYNCHRONOUS:
            between = partial(_between, trainer, directory, heldout, signals, output, describe, evaluate_every,
                              checkpoint_every)
            left = None
            if replay is not None:
                left = train_by_record(trainer, totals, progress, between, replay, watch)
            elif is_decentralised(options.consistency):
                train_decentralised(trainer, totals, progress, between, warm, watch)
            else:
                left = train_without_barriers(trainer, totals, progress, between, every,
                                              lambda: signals is not None and signals.asked, warm, watch)
            return _finish(trainer, directory, totals, None, heldout, output, None, left)
        while trainer.step < options.steps:
            record, seconds = _step(trainer, watch, signals, partial(_saved, trainer, trials, output, describe))
            totals.add(record, seconds, trainer.alpha)
            if trials.after_step(seconds):
                _search_ended(trainer, totals, directory, trainer.step + warm)
            totals.add_moves()
            _after_step(trainer, trials, record, directory, heldout, evaluate_every=evaluate_every, progress=progress,
                        checkpoint_every=checkpoint_every, output=output, describe=describe)
        return _finish(trainer, directory, totals, record.get("heldout") if totals.steps else None, heldout, output,
                       trials.to_json())


def _check_can_judge(model, heldout):
    """Raise ValueError if there are held-out data for a model that cannot be judged by them. Local."""
    if heldout is not None and not hasattr(model, "evaluate"):
        raise ValueError(f"there are held-out data, but {type(model).__name__} has no evaluate: give it one "
                         "(models/protocol.py), or leave the held-out data out")


def _network_file(comm, output, resume) -> Path | None:
    """Return where the calibrated network is kept, None: nowhere. Refuses the directory of another run. Collective."""

    def work():
        if output is None:
            return None
        if comm.rank == 0 and not _continues(output, resume):
            refuse_taken(Path(output))
        return Path(output) / "network.json"

    return comm.together(work, (ValueError, OSError))


def _continues(output, resume) -> bool:
    """Return whether a run goes on in the directory that it is resumed from. Local."""
    return resume is not None and Path(resume).resolve() == Path(output).resolve()


def _facts(describe, heldout, **when) -> dict:
    """Return what all ranks must have alike beside options and data; ``when`` decides what they do together."""
    return {"model and data": describe, "held-out data": None if heldout is None else heldout.fingerprint, **when}


def _tell_choices(trainer, tell, heard: bool):
    """Tell what was chosen for this training, and why. Of ranks with nothing to compute warn if nobody ``heard``."""
    ranks, microbatches = trainer.comm.size, trainer.data.microbatches
    idle = (f"only {microbatches} of {ranks} ranks have a microbatch to compute: give --microbatches {ranks} or more, "
            f"or start {microbatches} ranks")
    for said in (trainer.device.told(trainer.options.device), getattr(trainer.comm.device_transport, "reason", None),
                 trainer.overlap_choice.reason, trainer.reason, ranks > microbatches and f"note: {idle}"):
        tell(said)
    if ranks > microbatches and not heard and trainer.comm.rank == 0:
        warnings.warn(idle, stacklevel=3)


def _tell(trainer, announce, text):
    """Announce on rank 0, if there is something to say; what goes wrong with it stops all ranks at their next step."""
    if text and announce is not None and trainer.comm.rank == 0:
        trainer.failure = trainer.failure or _attempt(lambda: announce(text))


def _step(trainer, watch, signals, saved) -> tuple[dict, float]:
    """Do a step as ``_timed_step``; raise saved(error) where a rank was asked to end after the one before. Collective.
    """
    trainer.failure = trainer.failure or (signals and signals.error())
    try:
        return _timed_step(trainer, watch)
    except Interrupted as error:
        if error.at_once:
            raise
        raise saved(error) from error


def _timed_step(trainer, watch) -> tuple[dict, float]:
    """Do a step; return its metrics and how many seconds it took this rank. Collective."""
    with watch(trainer):
        begin = time.perf_counter()
        record = trainer.train_step()
        return record, time.perf_counter() - begin


def _saved(trainer, trials, output, describe, error: Interrupted) -> Interrupted:
    """Save a checkpoint after the last step; return the error that says so, the same on every rank. Collective."""
    if output is not None:
        save_checkpoint(trainer, Path(output), describe, search=trials and trials.state())
    state = trainer.comm.once(lambda: on_disk(output))
    return Interrupted(f"{error}: ended after step {trainer.step}: {state}", error.signal, agreed=True)


def _after_step(trainer, trials, record, directory, heldout, *, evaluate_every, progress, checkpoint_every, output,
                describe):
    """Evaluate into ``record``, report it, save a checkpoint: what is due, and all after the last step. Collective."""

    def due(every):
        return trainer.step == trainer.options.steps or every and trainer.step % every == 0

    if heldout is not None and due(evaluate_every):
        record["heldout"] = evaluate(trainer, heldout)
    problem = _report(directory, trainer, output, record, progress, trials.ledger_keys())
    trainer.failure = trainer.failure or problem
    if output is not None and due(checkpoint_every):
        save_checkpoint(trainer, Path(output), describe, search=trials.state())


def _between(trainer, directory, heldout, signals, output, describe, evaluate_every, checkpoint_every, steps,
             ended):
    """Between two stretches of a training without barriers, and when it has ended: as ``_after_step``. Collective."""
    comm = trainer.comm

    def due(every):
        return every and trainer.step % every == 0 and not ended

    if heldout is not None and steps and due(evaluate_every):
        steps[-1]["heldout"] = evaluate(trainer, heldout)
    comm.agree(_attempt(lambda: directory and [directory.write_metrics(metrics) for metrics in steps]))
    try:
        comm.agree(signals and signals.error())
    except Interrupted as error:
        if error.at_once:
            raise
        if not ended:  # else all is done but its result
            raise _saved(trainer, None, output, describe, error) from error
    if output is not None and (ended or due(checkpoint_every)):
        save_checkpoint(trainer, Path(output), describe)


def _search_ended(trainer, totals, directory, counted_from):
    """Let only the steps with the P that was found count for the speed, if any are left, and write down the plan."""
    if counted_from < trainer.options.steps:
        totals.restart_clock(counted_from)
    trainer.failure = trainer.failure or _attempt(lambda: directory and directory.write_plan(trainer.plan.to_json()))


def _finish(trainer, directory, totals, evaluation, heldout, output, search, left: Left | None = None) -> Result:
    """Gather what the training ended with, and write it. Collective. left: by owners without barriers."""
    if evaluation is None and heldout is not None:  # resumed at the last step: nothing was left to do
        evaluation = evaluate(trainer, heldout)
    trainer.comm.agree(trainer.failure)
    if trainer.timeline.keep:
        events = gather_events(trainer.comm, trainer.timeline.spans)
        trainer.comm.agree(_attempt(lambda: directory and directory.write_trace(events)))
    options = trainer.options
    result = Result(trainer.plan.architecture, trainer.comm.size, trainer.step, evaluation=evaluation or {},
                    partition_search=search, overlap=trainer.overlap,
                    run_directory=None if output is None else str(output), rank=trainer.comm.rank,
                    consistency=options.consistency, staleness=left.histograms if left else [],
                    **totals.result(), **hashes(trainer.parameters, OPTIMIZERS[options.optimizer].state))
    trainer.comm.agree(_attempt(lambda: directory and left and left.entries and left.write(
        directory.path, result.parameters_sha256)))
    trainer.comm.agree(_attempt(lambda: directory and directory.finish(result.to_json())))
    _hand_back(trainer)
    return result


def _hand_back(trainer):
    """Give the model, if it keeps them (``models.protocol``), the values that were learned, whole. Collective."""
    for name in getattr(trainer.model, "names_to_keep", ()):
        value = trainer.parameters.collect(name, None, True, "learned")
        trainer.comm.settle()
        trainer.comm.together(lambda: trainer.model.keep_learned(name, value))


def _open_directory(trainer, output, describe, resume):
    """Return rank 0's run directory, None elsewhere or if no files are wanted. Collective."""

    def work():
        if output is None or trainer.comm.rank:
            return None
        check_saveable(trainer, describe)
        config = {"describe": describe, "options": trainer.options.to_json(), "ranks": trainer.comm.size,
                  "microbatches": trainer.data.microbatches, "device": trainer.device.to_json(),
                  "overlap": trainer.overlap_choice.to_json()}
        done, step = steps_done(trainer.found_in_flight), trainer.step
        kept = (lambda record: record["step"] <= done.get(record.get("worker"), step)) if _continues(
            output, resume) else None
        return RunDirectory(output, config, trainer.plan.to_json(), kept)

    return trainer.comm.together(work, (ValueError, OSError))


def _attempt(work) -> BaseException | None:
    """Do what only rank 0 does; return the error instead of raising it, for all ranks to agree on."""
    try:
        work()
    except BaseException as problem:
        return problem
    return None


def _report(directory, trainer, output, record, progress, more_keys) -> BaseException | None:
    """Write and show a step's metrics on rank 0; return what went wrong, which stops all ranks at their next step."""
    if output is not None:
        keys = ledger_keys(trainer.plan, trainer.model.variables) + more_keys
        counts = trainer.comm.gather_ledger(keys)
        record = {**record, "alpha": mean_alpha(trainer.comm, trainer.alpha)}

    def work():
        if directory is not None:
            directory.write_metrics({**record, "bytes_sent": _nested(keys, counts[0]),
                                     "bytes_received": _nested(keys, counts[1])})
        if progress is not None:
            progress(record)

    return _attempt(work) if trainer.comm.rank == 0 else None


def _nested(keys, counts) -> dict:
    """Return phase -> variable -> kind -> [bytes of rank 0, 1, ...]. counts: (N, k)."""
    result: dict = {}
    for (phase, variable, kind), by_rank in zip(keys, counts.T.tolist()):
        result.setdefault(phase, {}).setdefault(variable, {})[kind] = by_rank
    return result
