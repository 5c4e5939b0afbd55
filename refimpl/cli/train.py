"""Train a model on the ranks that mpirun started, or on one rank without it.

Every option has the same value on all ranks. An error on one rank stops all ranks with one message.
"""

import importlib
import os
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

from models.registry import entry_of
from refimpl.plan.plan import SYNCHRONOUS
from refimpl.cli.asked.options import add_consistency, add_model, add_training_options, named_model, split, with_plan
from refimpl.cli.told.progress import StepProgress
from refimpl.cli.told.said import introduce, plot_search, plot_staleness_of, print_result
from refimpl.cli.asked.values import nonempty, seconds, steps_or_seconds, whole
from refimpl.transport import CollectiveError
from refimpl.transport.job.supervisor import TIMEOUT_SECONDS, arrived, waiting, watch_heartbeats
from refimpl.words import counted

REFUSALS = (CollectiveError,)
OWN_SIGNALS = True
"""``run`` handles signals itself. Until then Ctrl-C ends a rank at once, because an import may swallow an error."""
BESIDE_REPLAY = ("model", "own_model", "resume", "evaluate_every", "checkpoint_every", "checkpoint_on_signal")
"""Options that cannot be used with --replay."""


def add(parser):
    """Add the options."""
    parser.hints = dict.fromkeys(("--ranks", "-n", "-np"), "mpirun starts the ranks: write mpirun -n {} "
                                 f"{parser.prog} ...")
    instead = add_model(parser)
    add_training_options(parser)
    add_consistency(parser)
    run = parser.add_argument_group("run directory")
    run.add_argument("--output", type=nonempty, metavar="DIR",
                     help="run directory (default runs/MODEL-ARCHITECTURE, the next free name)")
    run.add_argument("--no-output", action="store_true", help="write no files")
    run.add_argument("--resume", type=nonempty, metavar="DIR", action=instead,
                     help="continue from the newest checkpoint in DIR, with its model, data and options, on any "
                          "number of ranks (without barriers on the same number)")
    run.add_argument("--replay", type=nonempty, metavar="DIR", action=instead,
                     help="repeat the run without barriers in DIR from its event log, on any number of ranks: it gives "
                          "the same bits")
    run.add_argument("--checkpoint-every", type=steps_or_seconds, metavar="N",
                     help="write a checkpoint every N steps, or every 30s for N = 30s (and at the end)")
    run.add_argument("--evaluate-every", type=whole(), metavar="N",
                     help="evaluate on held-out data every N steps (and at the end)")
    run.add_argument("--keep-best", action="store_true", help="keep the checkpoint with the lowest held-out loss, too, "
                     "in DIR/best")
    run.add_argument("--trace", action="store_true", help="write trace.json with a timeline of all ranks, for Perfetto")
    run.add_argument("--timeout", type=seconds, metavar="SECONDS",
                     help="end the run when a rank has waited this long for another (default 300)")
    run.add_argument("--checkpoint-on-signal", action="store_true", help="on SIGINT (Ctrl-C), SIGTERM or SIGHUP, "
                     "finish the step and write a checkpoint, then end; a second signal ends the run immediately")
    run.add_argument("--survive", action="store_true", help="continue without ranks that die, with the same bits. It "
                     "needs Open MPI: mpirun --with-ft ulfm")
    run.add_argument("--backup-every", type=whole(), metavar="K",
                     help="with --survive: the ranks commit every K steps that another rank has a copy of what only "
                          "one keeps. After a death they repeat at most K steps (default 1)")
    run.add_argument("--json", action="store_true", help="print only the result, as one JSON object")


def run(given: dict) -> int:
    """Train, and print the result. Collective."""
    survive = given.get("survive", False)
    comm = _open(given.pop("timeout", TIMEOUT_SECONDS), survive)
    from refimpl.training.run.signals import Signals
    from refimpl.training.session import train  # loaded before signals become errors

    with Signals(given.pop("checkpoint_on_signal", False)) as signals:
        with _before_training(survive):
            comm = _train(given, comm, signals, train)
        if survive:
            comm.leave()
        comm.meet("the end of the job")
    waiting(comm.timeout, "MPI_Finalize")
    return 0


def _open(timeout, survive):
    """Return the communicator of all ranks. A rank whose MPI_Init hangs is ended after the time-out. Collective.

    survive: a communicator whose ranks can continue when others die. Raises ValueError if MPI cannot do this.
    """
    import refimpl.gradients  # noqa: F401 - slow to load; must not count as a wait for others

    if survive:
        watch_heartbeats(timeout)
    waiting(timeout, "MPI_Init")
    from refimpl.transport import Communicator

    arrived()
    if not survive:
        return Communicator.of(timeout=timeout)
    from refimpl.transport.survival import SurvivingCommunicator, check_survival

    with _before_training(survive):
        comm = SurvivingCommunicator.of(timeout=timeout)
        comm.together(lambda: check_survival(comm), (ValueError,))
    return comm


def _before_training(survive):
    """Return a context in which the death of a rank ends all, because the training has not begun yet. Local."""
    if not survive:
        return nullcontext()
    from refimpl.transport.survival import before_training  # loads MPI

    return before_training()


def _train(given: dict, comm, signals, train):
    """Train; return the communicator of the ranks that are left. Collective."""
    from refimpl.training.run.checkpoint import CHANGEABLE
    from refimpl.training.slow import slowed

    recipe, options, rest = split(given)
    changed = [name for name in CHANGEABLE if name in options and "resume" in rest]
    comm.together(lambda: _check_survival(rest), (ValueError,))
    replay = comm.together(lambda: _recorded(recipe, options, rest))
    model, data, heldout, recipe, options, changes = comm.together(
        lambda: _prepare(recipe, options, rest, comm.size) if replay is None else _prepare_replay(replay, comm))
    if replay is not None and comm.size != replay.plan.ranks:  # its files would not be a run of these ranks
        rest["no_output"] = True
    output = comm.together(lambda: _output(rest, recipe.model, options))
    name = comm.share_text(str(output))[0]  # two ranks might find different free names
    output = signals.directory = output and Path(name)
    quiet = comm.rank != 0 or rest.get("json", False)
    if not quiet and replay is not None:
        where = f"on {counted(replay.plan.ranks, 'rank')}, as recorded in {replay.directory}, on {comm.size}"
        print(f"{recipe.model} on {recipe.data}: {replay.options.consistency} {where} -> {output or 'no files'}",
              flush=True)
    elif not quiet:
        introduce(comm, recipe, options, output, changes)
    watcher, unit = _watcher(comm), entry_of(recipe.model).unit
    per = "s" if options.consistency == SYNCHRONOUS else "s on rank 0"
    with StepProgress(options.steps, unit, quiet, per) as progress:
        if "survive" in rest:  # any rank may become rank 0, which prints
            quiet = progress.quiet = rest.get("json", False)
        asked = dict(options=options, output=output, resume=rest.get("resume"), change=changed,
                     keep_best=rest.get("keep_best", False),
                     checkpoint_every=rest.get("checkpoint_every"), evaluate_every=rest.get("evaluate_every"),
                     trace=rest.get("trace", False), describe=recipe.to_json(), progress=progress.show,
                     announce=None if quiet else lambda why: print(why, flush=True),
                     watch=watcher.step if watcher else nullcontext, signals=signals, replay=replay)
        model = slowed(model, options, comm.rank)
        if "survive" in rest:
            result, comm = _survive(model, data, heldout, comm, rest.get("backup_every", 1), asked)
        else:
            result = train(model, data, heldout, comm=comm, **asked)
    if watcher:
        watcher.close()
    if comm.rank == 0:
        print_result(result, unit, rest.get("json", False))
        plot_search(result, output, quiet)
        plot_staleness_of(result, output, quiet)
    return comm


def _survive(model, data, heldout, comm, backup_every, asked):
    """Train, and continue without ranks that die; return the result, and the communicator of the living ranks."""
    from refimpl.training.survival.session import SurvivingSession

    session = SurvivingSession(model, data, heldout, backup_every=backup_every, **asked)
    result = session.train(comm)
    return result, session.trainer.comm


def _watcher(comm):
    """Return the object that watches each step, if the environment names its class; else None. Local.

    REFIMPL_WATCH: "package.module:Class", called with ``comm``. It has ``step`` (see ``train``'s watch) and ``close``.
    """
    module, _, name = os.environ.get("REFIMPL_WATCH", "").partition(":")
    return getattr(importlib.import_module(module), name)(comm) if module else None


def _prepare(chosen_recipe, chosen_options, rest, ranks):
    """Return (model, data, heldout, recipe, options, changes): from the options, the checkpoint, or the defaults.

    changes: what is different in a resumed run, in words.
    """
    from models.recipe import build, recipe_of, resumed
    from refimpl.training.memory import members_of, require_memory
    from refimpl.training.options import Options
    from refimpl.training.run.manifest import read_manifest
    from refimpl.training.schedule import updates_of

    name, chosen_options, changes = named_model(rest), with_plan(chosen_options), []
    if "resume" in rest:
        manifest = read_manifest(rest["resume"])
        recipe = resumed(manifest.describe, chosen_recipe)
        if name not in (None, recipe.model):
            raise ValueError(f"{rest['resume']} holds a checkpoint of {recipe.model}, not of {name}: leave {name} out, "
                             "or resume another run")
        before = resumed(manifest.describe, {}), Options.from_json(manifest.options)
        options = replace(before[1], **chosen_options)
        changes = _changes(before, (recipe, options))
    else:
        recipe, complete = recipe_of(name, {**chosen_recipe, **chosen_options})
        if chosen_options.get("consistency", SYNCHRONOUS) != SYNCHRONOUS and "clip_norm" not in chosen_options:
            complete["clip_norm"] = None  # the default of some models, but no rank knows all gradients
        options = Options(**complete)
        if "rate_steps" not in chosen_options:
            options = replace(options, rate_steps=updates_of(options, ranks))
    model, data, heldout = build(recipe, options.seed)
    if options.device == "cpu":
        require_memory(model.variables, options.optimizer, ranks, members_of(options, ranks))
    return model, data, heldout, recipe, options, changes


def _check_survival(rest):
    """Raise ValueError for options that cannot be used with --survive, or that need it."""
    if "backup_every" in rest and "survive" not in rest:
        raise ValueError("--backup-every says how often --survive copies rows: give both, or leave it out")
    if "replay" in rest and "survive" in rest:
        raise ValueError("--survive cannot be used with --replay: if a replay ends early, start it again")


def _recorded(recipe, options, rest):
    """Return the run to be replayed, or None. Raises ValueError for options that the run itself decides."""
    from refimpl.training.consistency.served.record import RecordedRun

    directory = rest.pop("replay", None)
    if directory is None:
        return None
    asked = [*recipe, *options, *(name for name in rest if name in BESIDE_REPLAY)]
    if asked:
        raise ValueError(f"--replay {directory} already says what is trained and how: leave out {', '.join(asked)}")
    return RecordedRun.read(directory)


def _prepare_replay(run, comm):
    """Return what ``_prepare`` returns, for a run that is replayed on these ranks."""
    from models.recipe import build, resumed

    recipe = resumed(run.describe, {})
    return *build(recipe, run.options.seed), recipe, run.options_on(comm), []


def _changes(before, now) -> list[str]:
    """Return the differences in words. before, now: (recipe, options)."""
    was, found = (recipe.to_json() | options.to_json() for recipe, options in (before, now))
    said = {name: ["{...}" if isinstance(value, dict) else str(value) for value in (found[name], was[name])]
            for name in found if found[name] != was[name]}
    return [f"{name} {new} (was {old})" for name, (new, old) in said.items()]


def _output(rest, model, options):
    """Return the run directory: of --output, of --resume, or the next free name; None for no files."""
    from refimpl.training.run.directory import free_name

    if rest.get("no_output"):
        return None
    if chosen := rest.get("output") or rest.get("resume"):
        return Path(chosen)
    return free_name(Path("runs") / f"{model.replace(':', '.')}-{options.architecture}")
