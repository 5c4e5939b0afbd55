"""Equals plain/clipping.py: clipping by the global norm, and the optimizer's step on what a rank keeps."""

import math

from kernels.update import move_each, update_dense_each, update_rows
from kernels.update.rates import rate_of
from models import STATISTIC_RATE
from refimpl.gradients import ExactSum
from refimpl.server import ReducedGradient


def clip_scale(norm: float, largest: float | None) -> float:
    """Return min(1, largest / norm): what a gradient is multiplied with. Local."""
    return 1.0 if largest is None or norm <= largest else largest / norm


def norm_of(sum_of_squares: ExactSum) -> float:
    """Return sqrt(Σ g²), rounded once from the exact sum, then by the root. Local."""
    return math.sqrt(sum_of_squares.value())


def update_shards(options, number: int, reduced: list[ReducedGradient], scale: float = 1.0,
                  microbatches: int = 1) -> float:
    """Do update ``number`` (from 0) with summed gradients; return the learning rate. Local.

    scale: what clipping multiplies gradients by.  microbatches: V, for ``Options.average_sparse``.
    """
    dense, statistics = [], []
    rate = rate_of(number, base=options.learning_rate, rate=options.rate, warmup=options.warmup,
                   steps=options.rate_steps)
    for piece in reduced:
        shard, variable, gradient = piece.shard, piece.shard.variable, piece.gradient
        if variable.statistic:
            statistics.append((shard.values, gradient))
            continue
        factor = scale if variable.clipped else 1.0
        if variable.sparse and not options.average_sparse:
            factor *= microbatches
        decay = options.weight_decay if variable.decays else 0.0
        if piece.ids is None:
            dense.append((shard.values, shard.state, gradient, factor, decay))
        else:
            update_rows(options.optimizer, shard.values, shard.state, piece.ids, gradient, rate,
                        step=number + 1, scale=factor, decay=decay, **options.optimizer_options)
    update_dense_each(options.optimizer, dense, rate, step=number + 1, **options.optimizer_options)
    move_each(statistics, STATISTIC_RATE)
    return rate
