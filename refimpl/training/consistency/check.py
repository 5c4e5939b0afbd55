"""Refuses options that a training without barriers cannot have, before its first step, with a remedy."""

from kernels.update import LAYERWISE
from refimpl.plain.without_barriers.consistencies import consistency, is_decentralised
from refimpl.plain.without_barriers.corrections import check as check_correction
from refimpl.plan.plan import SYNCHRONOUS, Plan
from refimpl.training.consistency.replicas.meetings import meeting
from refimpl.training.consistency.replicas.run import schedule_of
from refimpl.training.consistency.served.flight import check_fits


def check_consistency(options, plan: Plan, microbatches: int, device: str):
    """Raise ValueError, with the remedy, unless a training with these options can follow this plan. Local.

    device: the kind of device on which ranks compute.
    """
    rule, ranks = options.consistency, plan.ranks
    if plan.consistency != rule:
        raise ValueError(f"the plan's consistency is {plan.consistency}, the options say {rule}: give both the same")
    if nobody := [rank for rank in options.slow_rank if int(rank) >= ranks]:
        raise ValueError(f"--slow-rank {nobody[0]}: there are ranks 0 to {ranks - 1}")
    if is_decentralised(rule):
        meeting(rule, ranks, options.steps)
        _check_replicas(options, plan)
    else:
        consistency(rule, ranks, options.steps)
        if rule == SYNCHRONOUS:
            if options.correction != "none":
                raise ValueError(f"--correction {options.correction} is for stale gradients, and a synchronous "
                                 "training has none: leave it out, or say --consistency asynchronous")
            return
        _check_served(options, plan)
    _check_options(options, ranks, microbatches, device)


def check_middle(trainer, every, on_signal: bool):
    """Raise ValueError unless a training can resume at its step, with these evaluations and checkpoints. Local.

    trainer: at the step of the checkpoint that is resumed, or at 0.  every: steps between evaluations, and between
    checkpoints (or seconds, "30s"); None: only at the end.  on_signal: whether a signal makes a checkpoint.
    """
    rule = trainer.options.consistency
    if is_decentralised(rule):
        names = "--resume", "--evaluate-every", "--checkpoint-every", "--checkpoint-on-signal"
        for given, option in zip((trainer.step, *every, on_signal), names):
            if given:
                raise ValueError(f"{option} needs one model in the middle of the training, and with --consistency "
                                 f"{rule} the replicas differ until its end: leave {option} out")
    elif rule != SYNCHRONOUS and isinstance(every[1], str):
        raise ValueError(f"--checkpoint-every {every[1]}: without barriers workers do not stop at one moment; give a "
                         "number of steps")
    elif rule != SYNCHRONOUS and trainer.found_in_flight:
        check_fits(trainer.plan, trainer.options.steps, trainer.found_in_flight)
    elif rule != SYNCHRONOUS and trainer.step:
        raise ValueError(f"the training finished at step {trainer.step}; without barriers, only one that was "
                         "interrupted can be resumed. Start a new run to train longer")


def _check_served(options, plan):
    check_correction(options.correction, options.optimizer)
    _check_no_mesh(options, plan)
    away = [name for name, strategy in plan.strategies.items() if strategy.name != "server"]
    if away:
        raise ValueError(f"--consistency {options.consistency} needs every variable on a server, which answers each "
                         f"worker when it comes; {away[0]} travels by {plan.strategies[away[0]].name}: say "
                         "--architecture ps, and no hot rows")


def _check_no_mesh(options, plan):
    if plan.on_mesh.model > 1:
        raise ValueError(f"--consistency {options.consistency} cannot be used on a mesh, because its ranks wait for "
                         f"each other in every round: leave out --mesh, or say {plan.ranks}x1")


def _check_replicas(options, plan):
    if options.correction != "none":
        raise ValueError(f"--correction {options.correction} is for gradients that come late to a server, but "
                         f"--consistency {options.consistency} has no server: leave it out")
    _check_no_mesh(options, plan)
    away = [name for name, strategy in plan.strategies.items() if not strategy.replicated or strategy.owners]
    if away:
        raise ValueError(f"--consistency {options.consistency} needs a whole replica on every rank; {away[0]} travels "
                         f"by {plan.strategies[away[0]].name}: say --architecture allreduce, without --shard-optimizer")
    schedule_of(plan)


def _check_options(options, ranks, microbatches, device):
    for wrong, words in (
            (options.clip_norm is not None, "--clip-norm needs the norm of all workers' gradients together, "
                                            "which no rank knows: say --clip-norm none"),
            (options.optimizer in LAYERWISE, f"{options.optimizer} needs norms of whole variables in each update: say "
                                             "--optimizer momentum or adam"),
            (options.scale_rate is not None,
             "an update has the gradients of some workers only: leave --scale-rate out"),
            (not options.average_sparse, "an update has the gradients of some workers only: leave --sum-sparse out"),
            (options.search_partitions, "--search-partitions times steps that all ranks do together: leave it out"),
            (options.overlap, "without barriers exchanges always run while others compute: leave --overlap "
                              "out"),
            (device != "cpu", "ranks keep and send arrays of the host: say --device cpu"),
            (ranks > microbatches, f"{ranks} workers share {microbatches} microbatches, and each needs one: give "
                                   f"--microbatches {ranks} or more")):
        if wrong:
            raise ValueError(f"--consistency {options.consistency}: {words}")
